#include "tests/contract/contract_files.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include "gpueta/v1/device.pb.h"
#include "gpueta/v1/kernel_manifest.pb.h"
#include "gpueta/v1/observation.pb.h"
#include "gpueta/v1/prediction.pb.h"
#include "gpueta/v1/prediction_service.pb.h"
#include "gpueta/v1/profile.pb.h"
#include "gpueta/v1/profile_service.pb.h"
#include "gpueta/v1/serving.pb.h"
#include "gpueta/v1/workload.pb.h"

namespace gpueta {

google::protobuf::FileDescriptorSet ContractFiles() {
  google::protobuf::FileDescriptorSet files;
  for (const google::protobuf::Descriptor* message :
       {v1::Kernel::descriptor(), v1::KernelManifest::descriptor(), v1::DeviceSpec::descriptor(),
        v1::Quantiles::descriptor(), v1::Profile::descriptor(), v1::PredictRequest::descriptor(),
        v1::ProfileInfo::descriptor(), v1::Observation::descriptor(), v1::AdmitRequest::descriptor()}) {
    message->file()->CopyTo(files.add_file());
  }
  return files;
}

}  // namespace gpueta
