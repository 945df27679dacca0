// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "catch.hpp"
#include "has.hpp"
#include "picture_sets/picture_set.hpp"
#include "temporary_folder.hpp"
#include "trainer/data/refusal.hpp"
#include "trainer/picture_sets/tar_archive.hpp"

using namespace muster;
using picture_sets::open_picture_set;
using picture_sets::PictureSet;
using picture_sets::PictureSetOptions;

namespace {

std::vector<int> labels(const picture_sets::PictureSource& source) {
  std::vector<int> all;
  for (std::uint64_t i = 0; i < source.count(); ++i) all.push_back(source.label(i));
  return all;
}

std::string refusal(const PictureSetOptions& options) {
  return usage_error_text([&] { open_picture_set(options); });
}

}  // namespace

TEST_CASE("each folder is a class", "[picture_sets]") {
  const TemporaryFolder folder;
  for (int i = 0; i < 20; ++i) folder.write("cat/" + std::to_string(i) + ".jpg", "c");
  for (int i = 0; i < 20; ++i) folder.write("ant/deep/" + std::to_string(i) + ".PNG", "an");
  folder.write("ant/notes.txt", "");
  folder.write("notes.txt", "");
  const PictureSet set = open_picture_set({folder.path().string(), "", "", 0.25});
  CHECK(set.classes == 2);
  CHECK(set.training->count() == 30);
  CHECK(labels(*set.held_out) == std::vector<int>{0, 0, 0, 0, 0, 1, 1, 1, 1, 1});
  std::vector<std::uint8_t> buffer;
  CHECK(set.training->read(0, buffer).size() == 2);
  CHECK(has(set.training->name(0), "ant/deep/0.PNG"));
  const auto before = set.training->fingerprint(0);
  folder.write("cat/1.jpg", "changed");
  CHECK(open_picture_set({folder.path().string(), "", "", 0.25}).training->fingerprint(0) != before);
}

TEST_CASE("train and val beside each other are the two parts", "[picture_sets]") {
  const TemporaryFolder folder;
  folder.write("train/a/1.jpg", "");
  folder.write("train/b/1.jpg", "");
  folder.write("val/b/1.jpg", "");
  const PictureSet set = open_picture_set({folder.path().string(), "", "", 0.1});
  CHECK(labels(*set.training) == std::vector<int>{0, 1});
  CHECK(labels(*set.held_out) == std::vector<int>{1});
  folder.write("val/c/1.jpg", "");
  CHECK(has(refusal({folder.path().string(), "", "", 0.1}), "it is a folder of no class to train on"));
}

TEST_CASE("folders that hold no classes are refused", "[picture_sets]") {
  const TemporaryFolder folder;
  CHECK(has(refusal({folder.path().string(), "", "", 0.1}), "there are neither folders of classes"));
  folder.write("a/1.jpg", "");
  folder.write("b/readme", "");
  CHECK(has(refusal({folder.path().string(), "", "", 0.1}), "there is no .jpg, .jpeg or .png in this class"));
  CHECK(has(refusal({(folder / "none").string(), "", "", 0.1}), "No such file"));
  CHECK(has(refusal({folder.path().string(), "", "label", 0.1}), "--label-column"));
}

TEST_CASE("a list's labels count from 0 or 1, and each class has a picture", "[picture_sets]") {
  const TemporaryFolder folder;
  for (const char* name : {"x/1.jpg", "x/2.jpg", "x/3.jpg"}) folder.write(name, "");
  const auto set = [&](const std::string& text, const std::string& held_out) {
    return PictureSetOptions{folder.write("list.txt", text), folder.write("held_out.txt", held_out), "", 0};
  };
  const PictureSet from_1 = open_picture_set(set("x/1.jpg 1\nx/2.jpg 2\n", "x/3.jpg 2\n"));
  CHECK(from_1.classes == 2);
  CHECK(labels(*from_1.training) == std::vector<int>{0, 1});
  CHECK(labels(*from_1.held_out) == std::vector<int>{1});
  CHECK(open_picture_set(set("x/1.jpg 0\nx/2.jpg 1\n", "x/3.jpg 1\n")).classes == 2);
  CHECK(has(refusal(set("x/1.jpg 0\nx/2.jpg 2\n", "x/3.jpg 0\n")),
            "no picture to train on has the label 1, and the labels reach up to 2"));
  CHECK(has(refusal(set("x/1.jpg 1\nx/2.jpg 2\n", "x/3.jpg 3\n")),
            "x/3.jpg has the label 3, and the labels to train on are 1 to 2"));
  CHECK(has(refusal(set("x/1.jpg 1\nx/2.jpg 2\n", "x/3.jpg 0\n")), "has the label 0"));
  CHECK(has(refusal(set("x/1.jpg 0\n\nx/4.jpg 0\n", "x/3.jpg 0\n")), "list.txt:3: cannot use the picture"));
  CHECK(has(refusal(set("x/1.jpg 0\nx 0\n", "x/3.jpg 0\n")), "not a regular file"));
}

TEST_CASE("of each label a part is held out, in any order of the labels", "[picture_sets]") {
  const TemporaryFolder folder;
  folder.write("x.jpg", "");
  std::string cyclic, few;
  for (int i = 0; i < 100; ++i) cyclic += "x.jpg " + std::to_string(i % 10) + "\n";
  for (int i = 0; i < 12; ++i) few += "x.jpg " + std::to_string(i % 4) + "\n";
  const PictureSet set = open_picture_set({folder.write("cyclic.txt", cyclic), "", "", 0.1});
  std::vector<int> expected(10);
  std::iota(expected.begin(), expected.end(), 0);
  auto held_out = labels(*set.held_out);
  std::sort(held_out.begin(), held_out.end());
  CHECK(held_out == expected);
  CHECK(set.training->count() == 90);
  // Three pictures of a label are too few for a sixth of them: every second label has one.
  held_out = labels(*open_picture_set({folder.write("few.txt", few), "", "", 1.0 / 6}).held_out);
  std::sort(held_out.begin(), held_out.end());
  CHECK(held_out == std::vector<int>{1, 3});
}

TEST_CASE("shards are found in a folder, by name and by pattern", "[picture_sets]") {
  const TemporaryFolder folder;
  folder.write("0.tar", tar_member("a.jpg", "A") + tar_member("a.cls", "0") + tar_end());
  folder.write("1.tar", tar_member("b.png", "B") + tar_member("b.cls", "1") + tar_end());
  for (const std::string& data : {folder.path().string(), (folder / "*.tar").string()}) {
    const PictureSet set = open_picture_set({data, "", "", 0});
    CHECK(labels(*set.training) == std::vector<int>{0, 1});
    CHECK(set.held_out->count() == 0);
  }
  CHECK(open_picture_set({(folder / "0.tar").string(), "", "", 0}).classes == 1);
}
