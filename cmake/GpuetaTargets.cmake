# The three kinds of targets this project has.

# Options every target of ours is compiled with.
add_library(gpueta_options INTERFACE)
target_compile_options(gpueta_options INTERFACE -Wall -Wextra -Wshadow -Wno-missing-field-initializers
                                                $<$<BOOL:${GPUETA_WERROR}>:-Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # False alarms of GCC 12 at -O3: on std::string (its bug 105329), and on a
  # std::variant that is assigned another alternative.
  # Clang's analysis and the sanitizers look for what the second would find.
  target_compile_options(gpueta_options INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
endif()
target_include_directories(gpueta_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_definitions(gpueta_options INTERFACE GPUETA_VERSION="${PROJECT_VERSION}")
if(GPUETA_SANITIZE)
  add_compile_options(-fsanitize=${GPUETA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${GPUETA_SANITIZE})
  if(GPUETA_SANITIZE MATCHES thread)
    # Under this macro protobuf's headers give map fields two more members,
    # which the packaged library does not know of. Our code asks GPUETA_TSAN.
    add_compile_options(-U__SANITIZE_THREAD__ -DGPUETA_TSAN)
  endif()
endif()

# gpueta_library(NAME SOURCES a.cc... HEADERS a.h... DEPS lib...)
# A static library; each of its headers is also compiled alone by the target
# all_verify_interface_header_sets.
function(gpueta_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;DEPS" ${ARGN})
  if(ARG_SOURCES)
    add_library(${name} STATIC ${ARG_SOURCES})
    set(scope PUBLIC)
  else()
    add_library(${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_sources(${name} PUBLIC FILE_SET headers TYPE HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ARG_HEADERS})
  set_target_properties(${name} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
  target_link_libraries(${name} ${scope} $<BUILD_INTERFACE:gpueta_options> ${ARG_DEPS})
endfunction()

# gpueta_executable(NAME SOURCES a.cc... DEPS lib...)
function(gpueta_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE gpueta_options ${ARG_DEPS})
endfunction()

add_custom_target(unit_tests)  # builds what `ctest -L unit` runs

# gpueta_test(NAME SOURCES a_test.cc... DEPS lib... [LABEL unit] [TIMEOUT s])
# One binary and one ctest entry; the label says which kind of test it is.
function(gpueta_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;DEPS" ${ARGN})
  if(NOT GPUETA_TESTS)
    return()
  endif()
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE gpueta_options ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(GPUETA_SANITIZE MATCHES undefined)
    # A quarter of the time tests take to compile, for what the address
    # sanitizer sees too, in code that is not shipped.
    target_compile_options(${name} PRIVATE -fno-sanitize=null,alignment)
  endif()
  if(ARG_LABEL STREQUAL unit)
    add_dependencies(unit_tests ${name})
  endif()
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "${GPUETA_TEST_ENVIRONMENT}")
endfunction()

# What the sanitizers need to know when tests run.
set(GPUETA_TEST_ENVIRONMENT "ASAN_OPTIONS=detect_leaks=1" "UBSAN_OPTIONS=print_stacktrace=1"
    "LSAN_OPTIONS=print_suppressions=0:suppressions=${PROJECT_SOURCE_DIR}/tests/lsan.supp"
    "TSAN_OPTIONS=ignore_noninstrumented_modules=1 suppressions=${PROJECT_SOURCE_DIR}/tests/tsan.supp")
