# Importance sampling: the door to C. Samples number offset to offset + n - 1 are given, drawn, or not there where log
# weights alone are summed; they are weighed and summed in one pass.
#
# Sums come as nodes, a matrix with a column per node in rising order: the summary of an aligned run of 2^level tiles of
# 4096 samples (sample number i belongs to tile i div 4096), or of a part of one tile. Its rows are
#   first, level               number of the first tile; the run has 2^level tiles
#   n, n_bad, n_zero           samples; log weights that are NaN or +Inf; that are -Inf
#   max, sum, sum_squares      largest log weight; sums of w = exp(log weight - max) and of w^2
#   sum_x (n_dim rows)         sums of w x
#   second                     sums of w (x_i - shift_i) (x_j - shift_j): none; with moments "squares" n_dim of i = j;
#                              with "products" the lower triangle by rows, (1, 1), (2, 1), (2, 2), (3, 1), ...
# A run that is cut at multiples of 4096 and joined by join_nodes() has the nodes of the whole, to the bit.

# samples: n x n_dim, or one from to_device() with a `run` from run_where(); drawing: from draw_plan(). target,
# proposal: nodes as linked() makes them, or log_weights: n; or none of these, and only draws are made. `n_tail` is
# how many of the largest finite log weights are wanted, `run` from run_for_importance() or check_run(). Returns
# list(nodes, tail, draws, log_weights, first_bad): tail falls; draws is n x n_dim or NULL; first_bad is the number of
# the first sample whose log weight is NaN or +Inf, or NA.
run_importance <- function(n, n_dim, seed = 0, offset = 0, samples = NULL, drawing = NULL, target = NULL,
                           proposal = NULL, log_weights = NULL, moments = "none", shift = numeric(n_dim), n_tail = 0,
                           keep_draws = FALSE, keep_log_weights = FALSE, precision = "double", run) {
  if (is.null(samples) && is.null(drawing)) {
    n_dim <- 0
  }
  size <- as.double(c(n, n_dim, seed, offset, n_tail))
  which_moments <- match(moments, c("none", "squares", "products")) - 1L
  result <- check_result(.Call(
    C_ffi_importance, size, for_c(samples), drawing, target, proposal, log_weights,
    list(which_moments, as.double(shift)),
    c(keep_draws, keep_log_weights), precision == "single", run
  ), run[[1]])
  rownames(result$nodes) <- c(node_rows, rep(c("sum_x", "second"), c(n_dim, nrow(result$nodes) - 8 - n_dim)))
  result
}

node_rows <- c("first", "level", "n", "n_bad", "n_zero", "max", "sum", "sum_squares")

# How such a call is to run: check_run() with its costs. `nodes` are those of target and proposal, not linked; a sample
# travels to the GPU or back where `moved` numbers of it do.
run_for_importance <- function(backend, device, n, n_dim, nodes = NULL, drawing = NULL, moments = "none", moved = 0) {
  n_moments <- switch(moments, none = 0, squares = n_dim, products = n_dim * (n_dim + 1) / 2)
  sample_ns <- 10 + 0.4 * (n_dim + n_moments) + nodes_ns(nodes) + draw_ns(drawing, n_dim)
  check_run(backend, device, cpu_ns = n * sample_ns, bytes = 8 * n * moved, nodes = nodes)
}

draw_ns <- function(drawing, n_dim) {
  if (is.null(drawing)) {
    return(0)
  }
  n_terms <- if (drawing$full) n_dim * (n_dim + 1) / 2 else n_dim
  2 * n_dim + 0.3 * n_terms + if (is.null(drawing$df)) 0 else 40
}

# Nodes joined to those of all samples. The columns rise; the parts of a tile stand side by side.
join_nodes <- function(nodes) {
  joined <- check_result(.Call(C_ffi_join_nodes, nodes), "cpu")
  rownames(joined) <- rownames(nodes)
  joined
}

# The sums over all nodes, relative to `max`; without any, max is -Inf and the sums are 0.
total_nodes <- function(nodes) {
  total <- check_result(.Call(C_ffi_total_nodes, nodes), "cpu")
  rows <- rownames(nodes)
  columns <- list(sum_x = total[rows == "sum_x"], second = total[rows == "second"])
  c(as.list(stats::setNames(total[3:8], rows[3:8])), columns)
}
