# Shared by the scripts. Source it from the repository root.
# shellcheck shell=bash

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# What building and running needs; nothing of it starts a service.
build_packages=(
  ca-certificates git g++ cmake ninja-build ccache
  libgrpc++-dev protobuf-compiler-grpc protobuf-compiler libprotobuf-dev libabsl-dev prometheus-cpp-dev libcivetweb-dev
  libdnnl-dev opencl-headers ocl-icd-opencl-dev libsqlite3-dev zlib1g-dev libeigen3-dev libopenblas-serial-dev libcli11-dev
  nlohmann-json3-dev libspdlog-dev libfmt-dev libonnx-dev libssl-dev curl)
# What tests need besides.
test_packages=(
  libgtest-dev libgmock-dev libbenchmark-dev
  clang-16 clang-tidy-16 clang-format-16 libclang-rt-16-dev llvm-16 prometheus python3)

# install_packages PACKAGE…: with apt what is missing, as root or by sudo.
install_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${Status}\n' "$package" 2>/dev/null | grep -q '^install ok installed$' || missing+=("$package")
  done
  (( ${#missing[@]} )) || return 0
  command -v apt-get >/dev/null || die "needs Debian 12 (apt-get is missing); install: ${missing[*]}"
  local root=()
  if (( EUID != 0 )); then
    command -v sudo >/dev/null || die "these packages are missing, and neither root nor sudo is at hand: ${missing[*]}"
    root=(sudo)
  fi
  say "Installing ${#missing[@]} packages with apt"
  local log=build/apt.log
  mkdir -p build
  { "${root[@]}" apt-get update && DEBIAN_FRONTEND=noninteractive "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 ||
    { tail -n 3 "$log" >&2; die "apt could not install ${missing[*]} (the log is $log)"; }
}

# build PRESET [--target TARGET] [CMAKE OPTIONS…]: configures if needed and builds.
build() {
  local preset=$1 log=build/$1.log target=all
  shift
  if [[ ${1:-} == --target ]]; then target=$2; shift 2; fi
  mkdir -p build
  say "Building $preset"
  cmake --preset "$preset" "$@" >"$log" 2>&1 || { tail -n 20 "$log" >&2; die "configuring $preset failed (the log is $log)"; }
  if [[ -t 1 ]]; then
    cmake --build --preset "$preset" --target "$target" || die "building $preset failed"
  else
    cmake --build --preset "$preset" --target "$target" >>"$log" 2>&1 || { grep -E 'error|FAILED' "$log" | head -n 20 >&2; die "building $preset failed (the log is $log)"; }
  fi
}
