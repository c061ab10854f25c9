// OpenMP's functions. GNU's omp.h lies where only g++ looks; this lets tools
// made of clang read the files that use it.
#pragma once

#if __has_include(<omp.h>)
#include <omp.h>
#else
extern "C" {
enum omp_proc_bind_t { omp_proc_bind_false = 0 };
omp_proc_bind_t omp_get_proc_bind();
int omp_get_max_threads();
int omp_get_num_threads();
int omp_get_thread_num();
}
#endif
