# Prints the polynomial coefficients of src/core/math.h and src/core/gamma.h. Needs Rmpfr; run: Rscript tools/fit_math.R
#
# Each fit is weighted least squares at Chebyshev nodes, in 400-bit arithmetic; the weight makes the error relative to
# the finished function. That is within a factor of about two of the minimax error, and the degrees leave more room
# than that. The coefficients are rounded to their type one at a time, lowest power first, each time fitting the higher
# ones again to what is left, so that they absorb the rounding of the lower.

suppressPackageStartupMessages(library(Rmpfr))

bits <- 400
big <- function(x) mpfr(x, bits)

horner <- function(coef, x) {
  value <- 0 * x
  for (i in rev(seq_along(coef))) value <- value * x + coef[[i]]
  value
}

solve_dense <- function(columns, y) {
  # Gaussian elimination with partial pivoting; `columns` is a list of mpfr vectors.
  n <- length(columns)
  for (k in seq_len(n)) {
    pivot <- k - 1L + which.max(as.numeric(abs(columns[[k]][k:n])))
    swap <- seq_len(n)
    swap[c(k, pivot)] <- c(pivot, k)
    columns <- lapply(columns, function(column) column[swap])
    y <- y[swap]
    below <- seq_len(n) > k
    if (any(below)) {
      factor <- columns[[k]][below] / columns[[k]][k]
      for (j in k:n) columns[[j]][below] <- columns[[j]][below] - factor * columns[[j]][k]
      y[below] <- y[below] - factor * y[k]
    }
  }
  for (k in n:1) {
    y[k] <- y[k] / columns[[k]][k]
    above <- seq_len(n) < k
    if (any(above)) y[above] <- y[above] - columns[[k]][above] * y[k]
  }
  y
}

# The p of degree `degree` with the least sum of (weight * (target - x^from * p(x)))^2.
least_squares <- function(x, target, weight, from, degree) {
  moments <- lapply(0:(2 * degree), function(p) sum(weight^2 * x^(2 * from + p)))
  columns <- lapply(0:degree, function(i) do.call(c, moments[i + 0:degree + 1]))
  y <- do.call(c, lapply(0:degree, function(p) sum(weight^2 * target * x^(from + p))))
  solve_dense(columns, y)
}

round_to <- function(x, single) {
  x <- as.numeric(roundMpfr(x, if (single) 24 else 53))
  if (single) readBin(writeBin(x, raw(), size = 4L), "double", 1L, size = 4L) else x
}

fit <- function(name, x, target, weight, degree, single) {
  coef <- numeric(0)
  left <- target
  for (power in 0:degree) {
    coef <- c(coef, round_to(least_squares(x, left, weight, power, degree - power)[1], single))
    left <- left - coef[power + 1] * x^power
  }
  cat(sprintf("/* %s: relative error 2^%.1f */\n", name, log2(max(abs(as.numeric(weight * left))))))
  cat(sprintf("  %a%s  c%d\n", coef, if (single) "f" else "", 0:degree), sep = "")
}

chebyshev <- function(from, to, n = 200) {
  big(from) + (big(to) - from) * (1 - cos(Const("pi", bits) * (2 * 1:n - 1) / (2 * n))) / 2
}

cat(sprintf("ln2 double: %a %a\n", log(2), as.numeric(log(big(2)) - log(2))))
ln2f <- round_to(log(big(2)), TRUE)
cat(sprintf("ln2 float: %af %af\n", ln2f, round_to(log(big(2)) - ln2f, TRUE)))
cat(sprintf("1 / ln2: %a %af\n", as.numeric(1 / log(big(2))), round_to(1 / log(big(2)), TRUE)))
cat(sprintf("sqrt(1/2), used by its bits: %a %a\n", sqrt(0.5), round_to(sqrt(big(0.5)), TRUE)))

half_ln2 <- log(big(2)) / 2 * 1.0005

# log(1 + f) = 2 atanh(s) = 2 s + s z P(z), s = f / (2 + f), z = s^2.
s <- chebyshev(0, (sqrt(big(2)) - 1) / (sqrt(big(2)) + 1) * 1.0001)
fit("log, P in z", s^2, (2 * atanh(s) / s - 2) / s^2, s^3 / (2 * atanh(s)), 6, FALSE)

# log(1 + f) = f - f^2 / 2 + f^3 P(f).
f <- chebyshev(sqrt(big(0.5)) - 1, sqrt(big(2)) - 1)
fit("log1p float, P in f", f, (log1p(f) - f + f^2 / 2) / f^3, abs(f^3 / log1p(f)), 8, TRUE)

# exp(r) - 1 = r + r^2 Q(r).
r <- chebyshev(-half_ln2, half_ln2)
fit("exp, Q in r", r, (expm1(r) - r) / r^2, abs(r^2 / expm1(r)), 9, FALSE)
fit("exp float, Q in r", r, (expm1(r) - r) / r^2, abs(r^2 / expm1(r)), 4, TRUE)

# log Gamma(1 + t) = t (c + t P(t)), c = -(Euler's gamma), and log Gamma(2 + u) = u (c + u P(u)), c = 1 - gamma.
fit_zero <- function(at, x, c, degree, single) {
  hi <- round_to(c, single)
  cat(sprintf("lgamma at %d, c: %a %a%s\n", at, hi, round_to(c - hi, single), if (single) " (float)" else ""))
  value <- lgamma(at + x)
  name <- sprintf("lgamma%s, P around %d", if (single) " float" else "", at)
  fit(name, x, (value / x - c) / x, abs(x^2 / value), degree, single)
}
for (single in c(FALSE, TRUE)) {
  degree <- if (single) 8 else 18
  fit_zero(1, chebyshev(-0.25, 0.35), -Const("gamma", bits), degree, single)
  fit_zero(2, chebyshev(-0.65, 0.5), 1 - Const("gamma", bits), degree, single)
}

# log Gamma(x) = (x - 1/2) log(x) - x + log(2 pi) / 2 + S(w) / x, w = 1 / x^2, from x = 8 on; the error is of S(w) / x.
pi_big <- Const("pi", bits)
half_log_2pi <- log(2 * pi_big) / 2
cat(sprintf("log(2 pi) / 2: %a %af\n", as.numeric(half_log_2pi), round_to(half_log_2pi, TRUE)))
w <- chebyshev(0, 1 / 64)
x <- 1 / sqrt(w)
stirling <- (lgamma(x) - ((x - 0.5) * log(x) - x + half_log_2pi)) * x
fit("lgamma, S in w, absolute", w, stirling, 1 / x, 6, FALSE)
fit("lgamma float, S in w, absolute", w, stirling, 1 / x, 1, TRUE)

# sin(pi r) = pi r T(r^2).
square <- chebyshev(0, 0.25)
sine <- sin(pi_big * sqrt(square)) / (pi_big * sqrt(square))
fit("sin(pi r) / (pi r), T in r^2", square, sine, 1 / sine, 8, FALSE)
fit("sin(pi r) / (pi r) float, T in r^2", square, sine, 1 / sine, 5, TRUE)
