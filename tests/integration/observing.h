// Reporting to a server, and what it makes of it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>

#include "gpueta/v1/observation.grpc.pb.h"
#include "server/testing/test_client.h"

namespace gpueta::testing_util {

// How many of the observations the server took.
inline std::int64_t Accepted(TestClient& client, const v1::ReportObservationsRequest& report) {
  const auto stub = v1::ObservationService::NewStub(client.channel());
  const auto context = PatientContext();
  v1::ReportObservationsResponse response;
  const auto writer = stub->ReportObservations(context.get(), &response);
  writer->Write(report);
  writer->WritesDone();
  EXPECT_TRUE(writer->Finish().ok());
  return response.accepted();
}

// The drift of everything observed in the last day.
inline v1::DriftState Drift(TestClient& client) {
  const auto stub = v1::ObservationService::NewStub(client.channel());
  v1::GetErrorSummaryResponse response;
  EXPECT_TRUE(stub->GetErrorSummary(PatientContext().get(), v1::GetErrorSummaryRequest(), &response).ok());
  return response.summaries(0).drift();
}

}  // namespace gpueta::testing_util
