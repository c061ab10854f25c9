// One StreamAdmit call.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "server/handlers/serving.h"

namespace gpueta {

// What a stream needs of its service. `answer` fills the empty answer to an
// item of the session and then calls `done`, on any thread, exactly once; an
// error is the item's status. `cancelled` says whether the caller went away.
using AnswerAdmitItem = std::function<void(AdmitSession& session, const v1::StreamAdmitRequest& item,
                                           const std::function<bool()>& cancelled, v1::StreamAdmitResponse& answer,
                                           std::function<void(const absl::Status&)> done)>;

// Reads an item, answers it, writes the answer, and so on until the client
// half-closes or goes away: one item is held at a time. The call is finished
// with what `on_end` makes of its status; `on_done` is the last that is called.
// `answer` must outlive the call.
grpc::ServerBidiReactor<v1::StreamAdmitRequest, v1::StreamAdmitResponse>* StartStreamAdmit(
    const AnswerAdmitItem& answer, const Limits& limits, std::function<grpc::Status(const absl::Status&)> on_end,
    std::function<void()> on_done);

}  // namespace gpueta
