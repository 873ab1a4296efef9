#undef REAL
#undef T
#undef R_FMA
#undef R_LOG
#undef R_EXP
#undef R_UNIFORM
