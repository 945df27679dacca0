// SPDX-License-Identifier: Apache-2.0
// The progress line as a terminal receives it.
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdio>

#include "catch.hpp"
#include "report/progress.hpp"

using namespace muster;

namespace {

/// Makes standard output a terminal with this number of columns while the object exists.
class OutputTerminal {
 public:
  explicit OutputTerminal(unsigned short columns) : keyboard_side_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    REQUIRE(::grantpt(keyboard_side_) == 0);
    REQUIRE(::unlockpt(keyboard_side_) == 0);
    const int terminal = ::open(::ptsname(keyboard_side_), O_RDWR | O_NOCTTY);
    struct termios mode {};
    REQUIRE(::tcgetattr(terminal, &mode) == 0);
    ::cfmakeraw(&mode);  // otherwise the terminal changes line ends
    REQUIRE(::tcsetattr(terminal, TCSANOW, &mode) == 0);
    struct winsize size {};
    size.ws_col = columns;
    REQUIRE(::ioctl(terminal, TIOCSWINSZ, &size) == 0);
    std::fflush(stdout);
    before_ = ::dup(STDOUT_FILENO);
    ::dup2(terminal, STDOUT_FILENO);
    ::close(terminal);
  }
  ~OutputTerminal() {
    std::fflush(stdout);
    ::dup2(before_, STDOUT_FILENO);
    ::close(before_);
    ::close(keyboard_side_);
  }
  OutputTerminal(const OutputTerminal&) = delete;
  OutputTerminal& operator=(const OutputTerminal&) = delete;

  /// The received text up to `end`; the kernel delivers it in parts.
  std::string received(const std::string& end) {
    std::fflush(stdout);
    std::string text;
    struct pollfd come {
      keyboard_side_, POLLIN, 0
    };
    while (!text.ends_with(end) && ::poll(&come, 1, 10'000) == 1) {
      char part[4096];
      const ssize_t length = ::read(keyboard_side_, part, sizeof part);
      if (length <= 0) break;
      text.append(part, static_cast<std::size_t>(length));
    }
    return text;
  }

 private:
  int keyboard_side_, before_ = -1;
};

}  // namespace

TEST_CASE("on a terminal the progress line overwrites itself, and other lines stay", "[terminal]") {
  const std::string erase = "\033[K";
  std::string text;
  {
    OutputTerminal terminal(50);
    {
      Progress progress(true, 1000, 4, Throughput(2e6, 1e9));
      progress.skip();
      progress.step(2, 2.0, 100, 0);
      progress.step(3, 2.0, 100, 0);  // too early to be drawn
      progress.line("a line that stays");
      progress.step(4, 1.0, 100, 0);
    }
    text = terminal.received(erase + "\n");
  }
  CAPTURE(text);
  CHECK(text.starts_with("\rstep 2/4  loss 2.0000  "));
  CHECK(text.find(erase) == 1 + 49);  // one column less than the terminal has
  CHECK(text.find(erase + "\r" + erase + "a line that stays\n\rstep 4/4  loss 1.9000  ") == 1 + 49);
  CHECK(text.ends_with(erase + "\n"));
  CHECK(text.find("step 3/4") == std::string::npos);
}
