# The CUDA toolkit, where there is one. Only its headers and nvcc are used: its
# libraries are opened when the program runs, so that one binary starts with
# and without them. Sets GPUETA_CUDA_INCLUDE_DIR (empty: built without CUDA) and
# GPUETA_NVCC.
set(GPUETA_CUDA_INCLUDE_DIR "")
if(NOT GPUETA_CUDA STREQUAL "OFF")
  set(places /usr/local/cuda $ENV{CUDA_HOME} $ENV{CUDA_PATH} ${CUDAToolkit_ROOT})
  find_path(GPUETA_CUDA_HEADERS cuda.h PATHS ${places} PATH_SUFFIXES include)
  find_program(GPUETA_NVCC nvcc PATHS ${places} PATH_SUFFIXES bin)
  mark_as_advanced(GPUETA_CUDA_HEADERS GPUETA_NVCC)
  set(missing "")
  foreach(header cuda.h cublasLt.h cudnn.h cupti.h nccl.h)
    if(NOT GPUETA_CUDA_HEADERS OR NOT EXISTS ${GPUETA_CUDA_HEADERS}/${header})
      string(APPEND missing " ${header}")
    endif()
  endforeach()
  if(NOT GPUETA_NVCC)
    string(APPEND missing " nvcc")
  endif()
  if(NOT missing)
    set(GPUETA_CUDA_INCLUDE_DIR ${GPUETA_CUDA_HEADERS})
    message(STATUS "CUDA backend: with ${GPUETA_NVCC}")
  elseif(GPUETA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "GPUETA_CUDA=ON, but the CUDA toolkit lacks:${missing}; set CUDAToolkit_ROOT")
  else()
    message(STATUS "CUDA backend: left out, for want of${missing}")
  endif()
endif()

# gpueta_ptx(VARIABLE FILE.cu) compiles a file of CUDA kernels to PTX for
# compute_75, which drivers compile for any newer device; VARIABLE is then its
# path in the build folder.
function(gpueta_ptx variable source)
  get_filename_component(name ${source} NAME_WE)
  set(ptx ${CMAKE_CURRENT_BINARY_DIR}/${name}.ptx)
  add_custom_command(
    OUTPUT ${ptx}
    COMMAND ${GPUETA_NVCC} -ptx -std=c++17 -arch=compute_75 -I${PROJECT_SOURCE_DIR} -MD -MF ${ptx}.d -o ${ptx}
            ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    MAIN_DEPENDENCY ${source} DEPFILE ${ptx}.d
    COMMENT "Compiling ${source} to PTX" VERBATIM)
  set(${variable} ${ptx} PARENT_SCOPE)
endfunction()
