// SPDX-License-Identifier: Apache-2.0
// How ranks that no PMIx introduces get the job's key from rank 0.
//
//   rank → desk   magic, length, sealed {job, rank, nonce}
//   desk → rank   magic, length, sealed {job, rank, nonce, key, port}
//
// A rank that has no seal to close says, without proof, why:
//
//   rank → desk   another magic, rank, obstacle
//
// The seal proves the user, the job's name keeps two jobs of one user apart, and the rank's nonce in the
// answer keeps an old one from being sent again.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "deadline.hpp"
#include "rendezvous/auth_failure.hpp"
#include "rendezvous/credential.hpp"
#include "transport/acceptor.hpp"
#include "transport/handshake.hpp"

namespace muster::bootstrap {

/// What the desk hands out: the job's key and the port of the gate that asks for it.
struct JobCredentials {
  control::Key key{};
  std::uint16_t port = 0;
};

/// Rank 0's side. Every call on the io_context's thread.
class KeyServer {
 public:
  /// Somebody was refused, a stranger or a rank; `why` says so in words.
  using OnRefusal = std::function<void(const std::string& why)>;
  /// Somebody said, without proof, that he is this rank and cannot take part.
  using OnDecline = std::function<void(int rank, AuthFailure obstacle)>;

  KeyServer(std::unique_ptr<control::Acceptor> door, CredentialCodec& seal, std::string job, int ranks, const JobCredentials& ticket,
          OnRefusal on_refusal, OnDecline on_decline = nullptr);
  ~KeyServer();
  KeyServer(const KeyServer&) = delete;
  KeyServer& operator=(const KeyServer&) = delete;
  void close() { door_->close(); }

 private:
  struct Request;
  void read(const std::shared_ptr<Request>& request);
  void read_decline(const std::shared_ptr<Request>& request);
  void answer(const std::shared_ptr<Request>& request);
  std::vector<std::uint8_t> reply_to(const std::vector<std::uint8_t>& sealed) const;
  void refuse(const std::shared_ptr<Request>& request, const std::string& why);

  std::unique_ptr<control::Acceptor> door_;
  CredentialCodec& seal_;
  std::string job_;
  int ranks_;
  JobCredentials ticket_;
  OnRefusal on_refusal_;
  OnDecline on_decline_;
  asio::thread_pool sealers_;  // munged takes a millisecond for each, or hangs
};

/// A rank's side: asks at one endpoint. Runs the io_context itself, until the deadline at the latest.
/// @throws Error(ErrorCode::system) with the reason why there is no ticket.
JobCredentials request_job_key(asio::io_context& io, const control::Endpoint& desk, CredentialCodec& seal, const std::string& job,
                      int rank, const Deadline& deadline);

/// Tells a desk why `rank` cannot take part. As request_job_key().
void report_auth_failure(asio::io_context& io, const control::Endpoint& desk, int rank, AuthFailure obstacle,
                const Deadline& deadline);

}  // namespace muster::bootstrap
