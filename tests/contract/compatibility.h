// Whether a changed contract still understands messages of the old one.
#pragma once

#include <string>
#include <vector>

namespace google::protobuf {
class FileDescriptorSet;
}

namespace gpueta {

// What breaks those who use `old_files` when `new_files` replace them, one
// sentence each, empty if nothing does:
// - a message, field, enum, enum value, service or method that is gone (a field
//   or value may go if its number and name are reserved);
// - a field with another number, type, label or oneof under its name, or
//   another name under its number (the JSON mapping and text format use names);
// - an enum value with another number or name;
// - a method with other messages or another kind of streaming.
// Additions break nobody.
std::vector<std::string> IncompatibilitiesOf(const google::protobuf::FileDescriptorSet& old_files,
                                             const google::protobuf::FileDescriptorSet& new_files);

}  // namespace gpueta
