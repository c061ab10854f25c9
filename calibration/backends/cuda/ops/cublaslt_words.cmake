# What cuBLASLt's header calls tiles, stages and clusters, as lines
# GPUETA_WORD(TILE, "128x64", 18): cmake -DHEADER=cublasLt.h -DOUT=file -P this.
file(STRINGS ${HEADER} lines REGEX "CUBLASLT_(MATMUL_TILE|MATMUL_STAGES|CLUSTER_SHAPE)_[0-9]+x[0-9xa-z]+ *= *[0-9]+")
set(text "")
foreach(line ${lines})
  if(line MATCHES "CUBLASLT_(MATMUL_)?(TILE|STAGES|CLUSTER)_?(SHAPE_)?([0-9]+x[0-9x]+) *= *([0-9]+)")
    string(APPEND text "GPUETA_WORD(${CMAKE_MATCH_2}, \"${CMAKE_MATCH_4}\", ${CMAKE_MATCH_5})\n")
  endif()
endforeach()
file(WRITE ${OUT} "${text}")
