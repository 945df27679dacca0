// SPDX-License-Identifier: Apache-2.0
// How ranks get the job's key from rank 0 without PMIx.
//
//   rank → server   magic, length, credential {job, rank, nonce}
//   server → rank   magic, length, credential {job, rank, nonce, key, port}
//
// The credential proves the user, the job's name separates two jobs of one user, and the rank's nonce in the
// answer prevents the replay of an old answer.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "deadline.hpp"
#include "rendezvous/credential.hpp"
#include "transport/acceptor.hpp"
#include "transport/handshake.hpp"

namespace muster::bootstrap {

/// What the server sends: the job's key and the port where ranks authenticate with it.
struct JobCredentials {
  control::Key key{};
  std::uint16_t port = 0;
};

/// Rank 0's side. Keeps no request whose connection has gone, so its memory is bounded by the acceptor's
/// table of connections, however many strangers send requests. All calls on the io_context's thread.
class KeyServer {
 public:
  /// The server refused a request, of a stranger or of a rank.
  using OnRefusal = std::function<void(const std::string& reason)>;

  KeyServer(std::unique_ptr<control::Acceptor> acceptor, CredentialCodec& codec, std::string job, int ranks,
            const JobCredentials& credentials, OnRefusal on_refusal);
  ~KeyServer();
  KeyServer(const KeyServer&) = delete;
  KeyServer& operator=(const KeyServer&) = delete;
  void close() { acceptor_->close(); }

 private:
  struct Request;
  void read(const std::shared_ptr<Request>& request);
  void answer(const std::shared_ptr<Request>& request);
  void decode_next();
  void decode(const std::shared_ptr<Request>& request);
  std::vector<std::uint8_t> make_reply(const std::vector<std::uint8_t>& credential) const;
  void refuse(const std::shared_ptr<Request>& request, const std::string& reason);

  std::unique_ptr<control::Acceptor> acceptor_;
  CredentialCodec& codec_;
  std::string job_;
  int ranks_;
  JobCredentials credentials_;
  OnRefusal on_refusal_;
  std::deque<std::shared_ptr<Request>> waiting_;  // until a thread is free
  std::size_t max_waiting_;
  std::shared_ptr<std::size_t> decoding_ = std::make_shared<std::size_t>(0);  // how many threads are busy
  asio::thread_pool credential_threads_;  // munged takes 1 ms per credential, or hangs
};

/// A rank's side: requests the key at all endpoints side by side, since strangers may hold some of them.
/// Returns the first answer, and where it came from. Runs the io_context itself, until the deadline at the
/// latest.
/// @throws Error(ErrorCode::system) with the error of the endpoint where the request came furthest.
std::pair<JobCredentials, control::Endpoint> request_job_key(asio::io_context& io,
                                                             const std::vector<control::Endpoint>& endpoints,
                                                             CredentialCodec& codec, const std::string& job,
                                                             int rank, const Deadline& deadline);

}  // namespace muster::bootstrap
