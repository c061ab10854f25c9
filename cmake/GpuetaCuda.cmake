# The CUDA toolkit, where there is one. Only its headers and nvcc are used: its
# libraries are opened when the program runs, so that one binary starts with
# and without them. Sets GPUETA_CUDA_INCLUDE_DIRS (empty: built without CUDA),
# GPUETA_CUBLASLT_HEADER and GPUETA_NVCC.
set(GPUETA_CUDA_INCLUDE_DIRS "")
if(NOT GPUETA_CUDA STREQUAL "OFF")
  set(places ${CUDAToolkit_ROOT} $ENV{CUDA_HOME} $ENV{CUDA_PATH} /usr/local/cuda)
  find_program(GPUETA_NVCC nvcc PATHS ${places} PATH_SUFFIXES bin)
  mark_as_advanced(GPUETA_NVCC)
  set(missing "")
  if(NOT GPUETA_NVCC)
    set(missing " nvcc")
  endif()
  # cuDNN and CUPTI may be installed apart from the rest.
  foreach(header cuda.h cublasLt.h cudnn.h cupti.h)
    find_path(GPUETA_DIR_OF_${header} ${header} PATHS ${places} PATH_SUFFIXES include extras/CUPTI/include)
    mark_as_advanced(GPUETA_DIR_OF_${header})
    if(GPUETA_DIR_OF_${header})
      list(APPEND GPUETA_CUDA_INCLUDE_DIRS ${GPUETA_DIR_OF_${header}})
    else()
      string(APPEND missing " ${header}")
    endif()
  endforeach()
  list(REMOVE_DUPLICATES GPUETA_CUDA_INCLUDE_DIRS)
  if(NOT missing)
    set(GPUETA_CUBLASLT_HEADER ${GPUETA_DIR_OF_cublasLt.h}/cublasLt.h)
    message(STATUS "CUDA backend: with ${GPUETA_NVCC}")
  elseif(GPUETA_CUDA STREQUAL "ON")
    message(FATAL_ERROR "GPUETA_CUDA=ON, but the CUDA toolkit lacks:${missing}; set CUDAToolkit_ROOT")
  else()
    set(GPUETA_CUDA_INCLUDE_DIRS "")
    message(STATUS "CUDA backend: left out, for want of${missing}")
  endif()
endif()

# gpueta_ptx(VARIABLE FILE.cu [ARCHITECTURE]) compiles a file of CUDA kernels to
# PTX for compute_75, or the architecture named, which drivers compile for any
# newer device; VARIABLE is then its path in the build folder.
function(gpueta_ptx variable source)
  get_filename_component(name ${source} NAME_WE)
  set(architecture compute_75)
  if(ARGC GREATER 2)
    set(architecture ${ARGV2})
  endif()
  set(ptx ${CMAKE_CURRENT_BINARY_DIR}/${name}.ptx)
  add_custom_command(
    OUTPUT ${ptx}
    COMMAND ${GPUETA_NVCC} -ptx -std=c++17 -arch=${architecture} -I${PROJECT_SOURCE_DIR} -MD -MF ${ptx}.d -o ${ptx}
            ${CMAKE_CURRENT_SOURCE_DIR}/${source}
    MAIN_DEPENDENCY ${source} DEPFILE ${ptx}.d
    COMMENT "Compiling ${source} to PTX" VERBATIM)
  set(${variable} ${ptx} PARENT_SCOPE)
endfunction()
