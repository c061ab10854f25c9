// Native speed from a portable build: the loader picks the widest variant of a
// function that the CPU runs. Sanitizers cannot run the resolvers.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(GPUETA_TSAN)
#define GPUETA_HAS_CLONES 1
#define GPUETA_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define GPUETA_CLONES
#endif
