# gpueta-server, gpueta-calibrate and gpueta in one small image.
FROM debian:12-slim AS build
COPY scripts/lib/common.sh /src/scripts/lib/common.sh
WORKDIR /src
RUN bash -c '. scripts/lib/common.sh && install_packages "${build_packages[@]}"'
COPY . /src
RUN cmake --preset release -DGPUETA_TESTS=OFF -DCMAKE_INSTALL_PREFIX=/opt/gpueta \
 && cmake --build --preset release \
 && cmake --install build/release --strip

FROM debian:12-slim
RUN apt-get update \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
      libgrpc++1.51 libprotobuf32 libdnnl2 libsqlite3-0 libfmt9 libspdlog1.10 libonnx1 libssl3 libprometheus-cpp-core1.0 \
      libprometheus-cpp-pull1.0 libcivetweb1 libgomp1 libopenblas0-serial \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --no-create-home gpueta \
 && install -d -o gpueta /var/lib/gpueta
COPY --from=build /opt/gpueta /opt/gpueta
ENV PATH=/opt/gpueta/bin:$PATH
USER gpueta
VOLUME /var/lib/gpueta
EXPOSE 7410 7411
# Answers only once profiles are loaded.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["gpueta", "--server", "127.0.0.1:7410", "health"]
ENTRYPOINT ["gpueta-server"]
CMD ["--listen", "0.0.0.0:7410", "--metrics-listen", "0.0.0.0:7411", "--store", "sqlite:/var/lib/gpueta/gpueta.db"]
