# Compiled densities of the tests go to a place of their own, never to the user's.
withr::local_options(fusedmc.cache = withr::local_tempdir(.local_envir = teardown_env()), .local_envir = teardown_env())
