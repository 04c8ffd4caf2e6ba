// Verbs: one command for documents of several kinds. `partita verify FILE` has a form for plans of
// services, one for schedules and one for power plans; a form is a command of its own in the tree,
// not listed, under the name that it had before, which stays understood. The table in verbs.cc is
// the only place that says which. Pure, but for a look at the kind of a file.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"

namespace CLI {
class App;
}

namespace partita::cli {

// What of a command line asks for a form of a verb.
struct Trigger {
  enum class Is : std::uint8_t {
    none,
    flag,     // it is given
    marker,   // the same, and it says nothing else
    again,    // it is given more than once
    url,      // it is given, with a URL
    word,     // it stands there, and says nothing else
    prefix,   // a word begins with it, which it loses
    two,      // two words without a flag: files
    kind,     // of the first or the last word's document: "BatchSchedule", "Profiles", "Folder"
    spelling  // the verb itself, with this flag or none: the older name is nothing but words for it
  };
  Is is = Is::none;
  std::string_view text = {};
};

// One form of a verb.
struct VerbForm {
  std::string_view verb;             // "verify", "queue show"
  std::string_view was;              // the command that does it, and its older name
  std::array<Trigger, 4> when = {};  // any of these; the first is how people say it
  const Trigger& first() const { return when.front(); }
};

// A command line: `words` name the command that does it, and `verb` is what was said instead of
// that; empty: nothing else was.
struct Spoken {
  std::vector<std::string> words;
  std::string verb = {};
};
Spoken with_verb(Files& files, std::span<char* const> words);

// What settings say of a verb's flag; empty: nothing.
using Told = std::function<std::vector<std::string>(std::string_view verb, std::string_view flag)>;
// Forms that words do not ask for but settings do, with what the verb is about: --tasks, --table or
std::vector<const VerbForm*> forms_told(Files& files, std::span<char* const> words,
                                        const Told& told);
// The first of them that has all flags of the words, which are for something else otherwise.
Spoken with_told(const CLI::App& root, std::span<char* const> words,
                 std::span<const VerbForm* const> forms);

// The form that has this older name; null: none.
const VerbForm* form_called(std::string_view was);
// Whether the older name is no command any more, but stands for words.
bool is_only_words(const VerbForm& form);
// "verify --tasks": how it is said now.
std::string said_now(const VerbForm& form);
// The same of any command's name.
std::string said_now(std::string_view name);
// "With --tasks or BatchSchedule": when a verb has this form.
std::string when_text(const VerbForm& form);
// The flag that only says which form is meant, and is not one of the form's own; empty: none.
std::string marker_of(const VerbForm& form);

struct FormOf {
  const VerbForm* form = nullptr;
  const CLI::App* app = nullptr;
};
// The forms of a command, those of other programs left out.
std::vector<FormOf> forms_of(const CLI::App& command);

// The command of that name right below one; null: none.
const CLI::App* child_named(const CLI::App& command, const std::string& name);
// "batch verify" of the command `partita batch verify`.
std::string path_below(const CLI::App& command);
// The names of commands below one: those that are listed, and older ones.
std::vector<std::string> names_below(const CLI::App& command);

// Takes the forms out of the lists of commands, and groups of nothing else. Before CLI11 parses.
void hide_forms(CLI::App& root);

}  // namespace partita::cli
