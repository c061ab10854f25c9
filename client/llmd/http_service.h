// The llm-d contract's paths.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "client/llmd/row_predictor.h"

namespace gpueta::llmd {

struct HttpAnswer {
  int status = 200;
  std::string body;  // JSON
};

// Safe to use from any thread.
class HttpService {
 public:
  // `predictor` must outlive this. `now` is the time as answers show it.
  HttpService(RowPredictor& predictor, std::function<std::string()> now);

  // 422 with the field for a body that is wrong, 503 where gpueta does not
  // answer, 404 and 405 for other paths and methods.
  HttpAnswer Answer(std::string_view method, std::string_view path, std::string_view body);

 private:
  HttpAnswer Ready() const;
  HttpAnswer Status() const;
  HttpAnswer PredictOne(std::string_view body) const;
  HttpAnswer PredictBulk(std::string_view body, bool strict) const;
  HttpAnswer AddSamples(std::string_view body) const;

  RowPredictor* predictor_;
  std::function<std::string()> now_;
  std::string started_;
};

}  // namespace gpueta::llmd
