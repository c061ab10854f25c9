#include <gpueta/client.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  auto client = gpueta::Client::Connect(argv[1], {.deadline = std::chrono::milliseconds(300), .attempts = 1});
  if (!client.ok()) return 1;
  gpueta::v1::PredictRequest request;
  request.add_devices()->set_slug("h100-sxm");
  gpueta::v1::Kernel& kernel = *request.mutable_kernel();
  kernel.set_dtype(gpueta::v1::DTYPE_BF16);
  kernel.mutable_gemm()->set_m(512);
  kernel.mutable_gemm()->set_n(4096);
  kernel.mutable_gemm()->set_k(4096);
  const auto response = client->Predict(request);
  std::cout << response.status().message() << "\n";
  return 0;
}
