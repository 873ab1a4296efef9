# R CMD INSTALL runs this in src/ in place of its own copying. The shared object goes where R would put it. What user
# code is compiled with, headers and flags, goes to include/fusedmc.

libs <- file.path(R_PACKAGE_DIR, paste0("libs", R_ARCH))
dir.create(libs, recursive = TRUE, showWarnings = FALSE)
file.copy(Sys.glob(paste0("*", SHLIB_EXT)), libs, overwrite = TRUE)
if (file.exists("symbols.rds")) {
  file.copy("symbols.rds", libs, overwrite = TRUE)
}

include <- file.path(R_PACKAGE_DIR, "include", "fusedmc")
for (part in c("core", "nvrtc")) {
  dir.create(file.path(include, part), recursive = TRUE, showWarnings = FALSE)
  file.copy(Sys.glob(file.path(part, "*.h")), file.path(include, part), overwrite = TRUE)
}
flags <- grep("^(CORE|KERNEL|AVX2|AVX512)_CFLAGS *=", readLines("Makevars"), value = TRUE)
writeLines(flags, file.path(include, "flags"))
