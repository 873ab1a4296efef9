"""Times JAX and PyTorch on what this package does, for bench/RESULTS.md.
  python3 bench/peers.py [runs|importance]
runs: a step of random-walk Metropolis on a standard normal, in microseconds. JAX takes all steps in one jitted lax.scan
that returns the last states, PyTorch in eager operations, step after step.
importance: samples of a normal weighed as samples of a mixture of three normals: log weights, log mean weight, weighted
mean and effective sample size, in milliseconds. Once with the drawing of the samples, as importance_sample() does, and
once of samples that lie on the GPU, as is_weights() does. jax.jit and torch.compile make kernels of it.
Medians of several rounds, compilation left out. All is written as their users would write it. What is not installed, or
has no GPU, is said and left out."""

import math
import os
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leaves PyTorch some memory

SHAPES = [(4096, 64, 2000), (1048576, 16, 200)]  # chains, dims, steps of a run
SAMPLES = [2**20, 2**24]  # of 16 dims
ROUNDS = 5

RUN_HEADER = "| shape | program | us a step | million dim-steps a second |\n|---|---|---|---|"
IMPORTANCE_HEADER = "| samples | what | program | ms |\n|---|---|---|---|"


def median(seconds):
    return sorted(seconds)[len(seconds) // 2]


def report_run(name, n_chains, n_dim, seconds, n_steps):
    us = 1e6 * median(seconds) / n_steps
    print(f"| {n_chains} x {n_dim} | {name} | {us:.2f} | {n_chains * n_dim / us:.0f} |", flush=True)


def report_importance(name, n, what, seconds):
    print(f"| {n} x 16 | {what} | {name} | {1e3 * median(seconds):.3f} |", flush=True)


def timed(run, wait):
    """Seconds of each round; the first, which compiles or warms up, does not count."""
    seconds = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        wait(run())
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


def mixture():
    """Weights, means and sds (3 x 16) of the target; the proposal is a normal with sd 3."""
    means = [[math.sin(1.7 * (16 * k + d)) for d in range(16)] for k in range(3)]
    sds = [[1 + 0.5 * math.cos(2.3 * (16 * k + d)) for d in range(16)] for k in range(3)]
    return [0.2, 0.3, 0.5], means, sds, 3.0


# ---- JAX -------------------------------------------------------------------------------------


def start_jax(header):
    import jax

    jax.config.update("jax_enable_x64", True)  # arrays say their type
    device = jax.devices()[0]
    print(f"\nJAX {jax.__version__} on {device.device_kind}\n\n{header}")
    return jax, device


def jax_runs():
    jax, device = start_jax(RUN_HEADER)
    jnp = jax.numpy

    def sampler(dtype, n_steps, step_size):
        def step(carry, key):
            x, log_density = carry
            key_noise, key_u = jax.random.split(key)
            proposal = x + step_size * jax.random.normal(key_noise, x.shape, dtype)
            log_new = -0.5 * jnp.sum(proposal**2, axis=1)
            log_u = jnp.log(jax.random.uniform(key_u, log_density.shape, dtype))
            accepted = log_u < log_new - log_density
            x = jnp.where(accepted[:, None], proposal, x)
            return (x, jnp.where(accepted, log_new, log_density)), None

        def run(x, key):
            start = (x, -0.5 * jnp.sum(x**2, axis=1))
            return jax.lax.scan(step, start, jax.random.split(key, n_steps))[0]

        return jax.jit(run)

    for n_chains, n_dim, n_steps in SHAPES:
        for dtype in (jnp.float32, jnp.float64):
            step_size = jnp.asarray(2.38 / n_dim**0.5, dtype)
            run = sampler(dtype, n_steps, step_size)
            x = jax.device_put(jnp.zeros((n_chains, n_dim), dtype), device)
            key = jax.random.PRNGKey(1)
            seconds = timed(lambda: run(x, key), jax.block_until_ready)
            report_run(f"JAX, jitted scan, {jnp.dtype(dtype).name}", n_chains, n_dim, seconds, n_steps)


def jax_importance():
    jax, device = start_jax(IMPORTANCE_HEADER)
    jnp = jax.numpy
    norm, logsumexp = jax.scipy.stats.norm, jax.scipy.special.logsumexp

    def functions(dtype, n):
        weights, means, sds, proposal_sd = (jnp.asarray(part, dtype) for part in mixture())

        def weigh(x):
            terms = jnp.sum(norm.logpdf(x[:, None, :], means, sds), axis=2) + jnp.log(weights)
            log_weights = logsumexp(terms, axis=1) - jnp.sum(norm.logpdf(x, 0, proposal_sd), axis=1)
            total = logsumexp(log_weights)
            w = jnp.exp(log_weights - total)
            return log_weights, total - math.log(n), w @ x, 1 / jnp.sum(w**2)

        def draw_and_weigh(key):
            return weigh(proposal_sd * jax.random.normal(key, (n, 16), dtype))[1:]

        return jax.jit(weigh), jax.jit(draw_and_weigh)

    for n in SAMPLES:
        for dtype in (jnp.float32, jnp.float64):
            weigh, draw_and_weigh = functions(dtype, n)
            name = f"JAX, jit, {jnp.dtype(dtype).name}"
            key = jax.device_put(jax.random.PRNGKey(1), device)
            seconds = timed(lambda: draw_and_weigh(key), jax.block_until_ready)
            report_importance(name, n, "draw, weigh, sum", seconds)
            x = jax.block_until_ready(3 * jax.random.normal(key, (n, 16), dtype))
            seconds = timed(lambda: weigh(x), jax.block_until_ready)
            report_importance(name, n, "weigh, sum", seconds)


# ---- PyTorch ---------------------------------------------------------------------------------


def start_torch(header):
    """None where there is no GPU."""
    import torch

    if not torch.cuda.is_available():
        print("\nPyTorch: no GPU")
        return None
    print(f"\nPyTorch {torch.__version__} on {torch.cuda.get_device_name(0)}\n\n{header}")
    return torch


def torch_runs():
    torch = start_torch(RUN_HEADER)
    for n_chains, n_dim, n_steps in SHAPES if torch else []:
        x = torch.zeros((n_chains, n_dim), dtype=torch.float32, device="cuda")
        step_size = 2.38 / n_dim**0.5
        n_eager = n_steps // 4

        def run():
            state = x
            log_density = -0.5 * (state**2).sum(1)
            for _ in range(n_eager):
                proposal = state + step_size * torch.randn_like(state)
                log_new = -0.5 * (proposal**2).sum(1)
                accepted = torch.rand_like(log_new).log() < log_new - log_density
                state = torch.where(accepted[:, None], proposal, state)
                log_density = torch.where(accepted, log_new, log_density)
            return state

        with torch.no_grad():
            seconds = timed(run, lambda _: torch.cuda.synchronize())
        report_run("PyTorch, eager, float32", n_chains, n_dim, seconds, n_eager)


def torch_importance():
    torch = start_torch(IMPORTANCE_HEADER)
    for n in SAMPLES if torch else []:
        weights, means, sds = (torch.tensor(part, device="cuda") for part in mixture()[:3])
        proposal_sd = mixture()[3]
        log_2_pi = math.log(2 * math.pi)

        def weigh(x):
            z = (x[:, None, :] - means) / sds
            terms = (-0.5 * (z**2 + log_2_pi) - sds.log()).sum(2) + weights.log()
            log_q = (-0.5 * ((x / proposal_sd) ** 2 + log_2_pi) - math.log(proposal_sd)).sum(1)
            log_weights = torch.logsumexp(terms, 1) - log_q
            total = torch.logsumexp(log_weights, 0)
            w = (log_weights - total).exp()
            return log_weights, total - math.log(n), w @ x, 1 / (w**2).sum()

        def draw_and_weigh():
            return weigh(proposal_sd * torch.randn((n, 16), device="cuda"))[1:]

        name = "PyTorch, torch.compile, float32"
        with torch.no_grad():
            seconds = timed(torch.compile(draw_and_weigh, dynamic=False), lambda _: torch.cuda.synchronize())
            report_importance(name, n, "draw, weigh, sum", seconds)
            x = proposal_sd * torch.randn((n, 16), device="cuda")
            compiled = torch.compile(weigh, dynamic=False)
            torch.cuda.synchronize()
            seconds = timed(lambda: compiled(x), lambda _: torch.cuda.synchronize())
            report_importance(name, n, "weigh, sum", seconds)


PARTS = {"runs": (("JAX", jax_runs), ("PyTorch", torch_runs)),
         "importance": (("JAX", jax_importance), ("PyTorch", torch_importance))}

if __name__ == "__main__":
    wanted = sys.argv[1:] or list(PARTS)
    if not set(wanted) <= set(PARTS):
        sys.exit(f"usage: python3 bench/peers.py [{'|'.join(PARTS)}]")
    for part in wanted:
        for name, run in PARTS[part]:
            try:
                run()
            except ImportError as error:
                print(f"\n{name}: not installed ({error})")
            except Exception as error:  # the other one is still worth its figures
                print(f"\n{name}: failed, {type(error).__name__}: {error}")
