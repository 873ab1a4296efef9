"""Times a step of random-walk Metropolis on a standard normal in JAX and in PyTorch, for bench/RESULTS.md.
  python3 bench/peers.py
Microseconds a step, the median of several runs, compilation left out. Both are written as their users would write them:
JAX as one jitted lax.scan over steps that returns the last states, PyTorch as eager operations, step after step. What
is not installed, or has no GPU, is said and left out."""

import os
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # leaves PyTorch some memory

SHAPES = [(4096, 64, 2000), (1048576, 16, 200)]  # chains, dims, steps of a run
ROUNDS = 5


HEADER = "| shape | program | us a step | million dim-steps a second |\n|---|---|---|---|"


def report(name, n_chains, n_dim, seconds, n_steps):
    us = 1e6 * sorted(seconds)[len(seconds) // 2] / n_steps
    print(f"| {n_chains} x {n_dim} | {name} | {us:.2f} | {n_chains * n_dim / us:.0f} |", flush=True)


def timed(run, wait):
    """Seconds of each round; the first, which compiles or warms up, does not count."""
    seconds = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        wait(run())
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


def time_jax():
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)  # arrays below say their type

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

    device = jax.devices()[0]
    print(f"\nJAX {jax.__version__} on {device.device_kind}\n\n{HEADER}")
    for n_chains, n_dim, n_steps in SHAPES:
        for dtype in (jnp.float32, jnp.float64):
            step_size = jnp.asarray(2.38 / n_dim**0.5, dtype)
            run = sampler(dtype, n_steps, step_size)
            x = jax.device_put(jnp.zeros((n_chains, n_dim), dtype), device)
            key = jax.random.PRNGKey(1)
            seconds = timed(lambda: run(x, key), jax.block_until_ready)
            report(f"JAX, jitted scan, {jnp.dtype(dtype).name}", n_chains, n_dim, seconds, n_steps)


def time_torch():
    import torch

    if not torch.cuda.is_available():
        print("\nPyTorch: no GPU")
        return
    print(f"\nPyTorch {torch.__version__} on {torch.cuda.get_device_name(0)}\n\n{HEADER}")
    for n_chains, n_dim, n_steps in SHAPES:
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
        report("PyTorch, eager, float32", n_chains, n_dim, seconds, n_eager)


if __name__ == "__main__":
    for name, run in (("JAX", time_jax), ("PyTorch", time_torch)):
        try:
            run()
        except ImportError as error:
            print(f"\n{name}: not installed ({error})")
        except Exception as error:  # the other one is still worth its figures
            print(f"\n{name}: failed, {type(error).__name__}: {error}")
