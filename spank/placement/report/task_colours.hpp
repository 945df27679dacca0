// SPDX-License-Identifier: Apache-2.0
// The fill style of each task in a picture. Pure.
#pragma once

#include <string>
#include <vector>

namespace muster::placement {

/// The colour of a task (#rrggbb), repeated every seven tasks. Okabe and Ito's palette ("Color Universal
/// Design", 2008, jfly.uni-koeln.de/color) without its black; people with any colour vision can distinguish
/// its colours.
std::string task_colour(int task);

/// Black or white, whichever is easier to read on the task's colour.
std::string text_colour_on(int task);

/// The fill of this task's shapes: its colour, from the eighth task on with a pattern, which changes every
/// seven tasks (28 styles in all).
std::string task_fill(int task);

/// The <pattern> elements that task_fill() refers to.
std::string pattern_definitions(int tasks);

}  // namespace muster::placement
