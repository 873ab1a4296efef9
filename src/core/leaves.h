/* Everything between a node and a log density. Template over REAL. */
#include "nodes.h"

#include "squares.h"

#include "elliptical.h"
#include "glm.h"
#include "mixture.h"
#include "source.h"

#include "density.h"
