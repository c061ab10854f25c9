// Reading messages in protobuf text format, with errors that say where.
#pragma once

#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <string_view>

#include "absl/status/status.h"

namespace gpueta::wire {

// INVALID_ARGUMENT with line and column of the first error for text that is no
// such message. `locations` may be null.
absl::Status ParseTextFormat(std::string_view text, google::protobuf::Message& message,
                             google::protobuf::TextFormat::ParseInfoTree* locations = nullptr);

// An error about a field of the message (core/base/errors.h) with the line before
// it: "line 12: dims[1].low: ...". A field that the text does not have is
// reported where the message around it begins.
absl::Status AtLine(const absl::Status& status, const google::protobuf::Descriptor& message,
                    const google::protobuf::TextFormat::ParseInfoTree& locations);

}  // namespace gpueta::wire
