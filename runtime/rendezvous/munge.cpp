// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "deadline.hpp"
#include "muster/error.hpp"
#include "rendezvous/credential.hpp"
#include "shared_object.hpp"

namespace muster::bootstrap {
namespace {

using Bytes = std::vector<std::uint8_t>;

// From munge.h, MUNGE 0.5: these numbers are part of the library's interface.
struct Context;
constexpr int option_cipher = 0;
constexpr int option_uid_restriction = 9;
constexpr int cipher_aes128 = 4;
// munge_decode() returns the content also with these errors (munge(3)).
constexpr int expired = 15, rewound = 16, replayed = 17;
// munged answers in about 1 ms. One that hangs must leave the rank time to report it before the deadline.
constexpr std::chrono::milliseconds munged_timeout{5000};

struct Library {
  detail::SharedObject object{"MUSTER_MUNGE_LIBRARY", "libmunge.so.2", "is MUNGE installed on this node?"};
  int (*munge_encode)(char** credential, Context*, const void* bytes,
                      int length) = object.find("munge_encode");
  int (*munge_decode)(const char* credential, Context*, void** bytes, int* length, uid_t*,
                      gid_t*) = object.find("munge_decode");
  const char* (*munge_strerror)(int) = object.find("munge_strerror");
  Context* (*munge_ctx_create)() = object.find("munge_ctx_create");
  void (*munge_ctx_destroy)(Context*) = object.find("munge_ctx_destroy");
  int (*munge_ctx_set)(Context*, int option, ...) = object.find("munge_ctx_set");
};

// The data of one library call, which may still run when we no longer wait for it.
struct Work {
  Bytes in;
  Bytes out;
  uid_t uid = 0;
  std::string unsupported;  // what this libmunge cannot do
};

// The kernel gives the first user namespace this number (linux/proc_ns.h, PROC_USER_INIT_INO).
bool is_first_user_namespace() {
  constexpr ino_t first = 0xEFFFFFFD;
  struct stat status {};
  return ::stat("/proc/self/ns/user", &status) == 0 && status.st_ino == first;
}

class MungeCodec : public CredentialCodec {
 public:
  MungeCodec(const Deadline& deadline, bool several_readers)
      : several_readers_(several_readers),
        library_(std::make_shared<Library>()),
        timeout_(std::min(munged_timeout, deadline.remaining() / 2)) {
    user_ = several_readers && is_first_user_namespace() ? ::geteuid() : find_user();
  }

  Bytes encode(std::span<const std::uint8_t> bytes) override { return munge_encode(bytes, &user_); }

  Bytes decode(std::span<const std::uint8_t> credential) override {
    auto work = munge_decode(Bytes(credential.begin(), credential.end()));
    if (work.uid != user_) {
      throw Error(ErrorCode::system,
                  fmt::format("the credential is of user {}, not of the job's user {}", work.uid, user_));
    }
    return std::move(work.out);
  }

 private:
  // The user as MUNGE sees it. In a user namespace it differs from geteuid().
  uid_t find_user() const { return munge_decode(munge_encode({}, nullptr)).uid; }

  Work run(const std::shared_ptr<Work>& work, int (*call)(const Library&, Work&)) const {
    auto const result =
        run_bounded([library = library_, work, call] { return call(*library, *work); }, Deadline(timeout_));
    if (!result) throw Error(ErrorCode::system, "munged did not answer within " + format_duration(timeout_));
    bool const is_old = *result == expired || *result == rewound || *result == replayed;
    if (*result != 0 && !(is_old && several_readers_))
      throw Error(ErrorCode::system, fmt::format("MUNGE: {}", library_->munge_strerror(*result)));
    if (!work->unsupported.empty()) throw Error(ErrorCode::system, work->unsupported);
    return std::move(*work);
  }

  Bytes munge_encode(std::span<const std::uint8_t> bytes, const uid_t* reader) const {
    auto work = std::make_shared<Work>();
    work->in.assign(bytes.begin(), bytes.end());
    if (reader == nullptr) return run(work, encode_for_anybody).out;
    work->uid = *reader;
    return run(work, encode_for_user).out;
  }

  Work munge_decode(Bytes credential) const {
    auto work = std::make_shared<Work>();
    work->in = std::move(credential);
    work->in.push_back(0);
    return run(work, [](const Library& library, Work& with) {
      void* bytes = nullptr;
      int length = 0;
      gid_t group = 0;
      int const result = library.munge_decode(reinterpret_cast<const char*>(with.in.data()), nullptr, &bytes,
                                              &length, &with.uid, &group);
      if (bytes != nullptr && length > 0) {
        auto const* const first = static_cast<const std::uint8_t*>(bytes);
        with.out.assign(first, first + length);
      }
      std::free(bytes);
      return result;
    });
  }

  static int encode_with(const Library& library, Work& with, Context* context) {
    char* credential = nullptr;
    int const result =
        library.munge_encode(&credential, context, with.in.data(), static_cast<int>(with.in.size()));
    if (credential != nullptr) with.out.assign(credential, credential + std::string_view(credential).size());
    std::free(credential);
    return result;
  }
  static int encode_for_anybody(const Library& library, Work& with) {
    return encode_with(library, with, nullptr);
  }
  static int encode_for_user(const Library& library, Work& with) {
    Context* const context = library.munge_ctx_create();
    // Both are required: otherwise other users could read the key.
    if (context == nullptr || library.munge_ctx_set(context, option_uid_restriction, with.uid) != 0 ||
        library.munge_ctx_set(context, option_cipher, cipher_aes128) != 0) {
      with.unsupported = "this MUNGE cannot restrict and encrypt a credential";
      if (context != nullptr) library.munge_ctx_destroy(context);
      return 0;
    }
    int const result = encode_with(library, with, context);
    library.munge_ctx_destroy(context);
    return result;
  }

  bool several_readers_;
  std::shared_ptr<Library> library_;
  std::chrono::milliseconds timeout_;
  uid_t user_ = 0;
};

class PeercredCodec : public CredentialCodec {
 public:
  Bytes encode(std::span<const std::uint8_t> bytes) override { return {bytes.begin(), bytes.end()}; }
  Bytes decode(std::span<const std::uint8_t> credential) override {
    return {credential.begin(), credential.end()};
  }
};

}  // namespace

std::unique_ptr<CredentialCodec> make_munge_codec(const Deadline& deadline, bool several_readers) {
  return std::make_unique<MungeCodec>(deadline, several_readers);
}

std::unique_ptr<CredentialCodec> make_peercred_codec() { return std::make_unique<PeercredCodec>(); }

}  // namespace muster::bootstrap
