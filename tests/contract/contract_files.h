// The files of gpueta.v1 as compiled into this build.
#pragma once

namespace google::protobuf {
class FileDescriptorSet;
}

namespace gpueta {

google::protobuf::FileDescriptorSet ContractFiles();

}  // namespace gpueta
