// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <sys/types.h>

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

// munge.h, MUNGE 0.5: its numbers are the library's interface.
struct Context;
constexpr int option_cipher = 0;
constexpr int option_uid_restriction = 9;
constexpr int cipher_aes128 = 4;
// munged answers in about a millisecond; one that hangs must not hold the join, and rank 0 is to hear of it.
constexpr std::chrono::milliseconds munged_time{5000};

struct Library {
  Library() : object("MUSTER_MUNGE_LIBRARY", "libmunge.so.2", "is MUNGE installed on this node?") {
    object.find(encode, "munge_encode");
    object.find(decode, "munge_decode");
    object.find(text, "munge_strerror");
    object.find(create, "munge_ctx_create");
    object.find(destroy, "munge_ctx_destroy");
    object.find(set, "munge_ctx_set");
  }
  detail::SharedObject object;
  int (*encode)(char** credential, Context*, const void* bytes, int length) = nullptr;
  int (*decode)(const char* credential, Context*, void** bytes, int* length, uid_t*, gid_t*) = nullptr;
  const char* (*text)(int) = nullptr;
  Context* (*create)() = nullptr;
  void (*destroy)(Context*) = nullptr;
  int (*set)(Context*, int option, ...) = nullptr;
};

// What one call of the library works on. It may go on after we stopped waiting for it.
struct Work {
  Bytes in;
  Bytes out;
  uid_t uid = 0;
  std::string wrong;  // what cannot be asked of this libmunge
};

class Munge : public CredentialCodec {
 public:
  explicit Munge(const Deadline& deadline)
      : library_(std::make_shared<Library>()), patience_(std::min(munged_time, deadline.remaining() / 2)) {
    // As whom MUNGE knows this process: in a user namespace that is not what getuid() says.
    user_ = decode(encode({}, nullptr)).uid;
  }

  Bytes close(std::span<const std::uint8_t> bytes) override { return encode(bytes, &user_); }

  Bytes open(std::span<const std::uint8_t> sealed) override {
    auto work = decode(Bytes(sealed.begin(), sealed.end()));
    if (work.uid != user_) {
      throw Error(ErrorCode::system,
                  fmt::format("the credential is of user {}, not of the job's user {}", work.uid, user_));
    }
    return std::move(work.out);
  }

 private:
  Work run(std::shared_ptr<Work> work, int (*call)(const Library&, Work&)) const {
    auto const result =
        run_bounded([library = library_, work, call] { return call(*library, *work); }, Deadline(patience_));
    if (!result) throw Error(ErrorCode::system, "munged did not answer within " + text_of(patience_));
    if (*result != 0) throw Error(ErrorCode::system, fmt::format("MUNGE: {}", library_->text(*result)));
    if (!work->wrong.empty()) throw Error(ErrorCode::system, work->wrong);
    return std::move(*work);
  }

  Bytes encode(std::span<const std::uint8_t> bytes, const uid_t* reader) const {
    auto work = std::make_shared<Work>();
    work->in.assign(bytes.begin(), bytes.end());
    if (reader == nullptr) return run(work, encode_for_anybody).out;
    work->uid = *reader;
    return run(work, encode_for_user).out;
  }

  Work decode(Bytes credential) const {
    auto work = std::make_shared<Work>();
    work->in = std::move(credential);
    work->in.push_back(0);
    return run(work, [](const Library& library, Work& with) {
      void* bytes = nullptr;
      int length = 0;
      gid_t group = 0;
      int const result = library.decode(reinterpret_cast<const char*>(with.in.data()), nullptr, &bytes,
                                        &length, &with.uid, &group);
      if (result == 0 && bytes != nullptr) {
        auto const* const first = static_cast<const std::uint8_t*>(bytes);
        with.out.assign(first, first + length);
      }
      std::free(bytes);
      return result;
    });
  }

  static int finish_encoding(const Library& library, Work& with, Context* context) {
    char* credential = nullptr;
    int const result = library.encode(&credential, context, with.in.data(), static_cast<int>(with.in.size()));
    if (credential != nullptr) with.out.assign(credential, credential + std::string_view(credential).size());
    std::free(credential);
    return result;
  }
  static int encode_for_anybody(const Library& library, Work& with) {
    return finish_encoding(library, with, nullptr);
  }
  static int encode_for_user(const Library& library, Work& with) {
    Context* const context = library.create();
    // Both must hold: without them others could read the key.
    if (context == nullptr || library.set(context, option_uid_restriction, with.uid) != 0 ||
        library.set(context, option_cipher, cipher_aes128) != 0) {
      with.wrong = "this MUNGE cannot restrict and encrypt a credential";
      if (context != nullptr) library.destroy(context);
      return 0;
    }
    int const result = finish_encoding(library, with, context);
    library.destroy(context);
    return result;
  }

  std::shared_ptr<Library> library_;
  std::chrono::milliseconds patience_;
  uid_t user_ = 0;
};

class Kernel : public CredentialCodec {
 public:
  Bytes close(std::span<const std::uint8_t> bytes) override { return {bytes.begin(), bytes.end()}; }
  Bytes open(std::span<const std::uint8_t> sealed) override { return {sealed.begin(), sealed.end()}; }
};

}  // namespace

std::unique_ptr<CredentialCodec> make_munge_codec(const Deadline& deadline) { return std::make_unique<Munge>(deadline); }

std::unique_ptr<CredentialCodec> make_peercred_codec() { return std::make_unique<Kernel>(); }

}  // namespace muster::bootstrap
