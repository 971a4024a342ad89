// SPDX-License-Identifier: Apache-2.0

package scripts

import (
	"maps"
	"slices"
)

// Policy says what becomes of a type of checkpatch. The zero value passes it
// on: ERROR as error, WARNING as warning, CHECK with --strict only.
type Policy struct {
	Type   string
	Drop   bool   // never passed on
	Strict bool   // a note, with --strict only
	Note   bool   // a note
	Reason string // why it is not passed on as it is

	Message bool // is about the commit message: on a line of the diff it is a false alarm
	Code    bool // is about the diff: in the message it is a false alarm
	Style   bool // does not count in generated files and in files with a style of their own
}

const (
	ours    = "our own rules say it with more knowledge"
	noRepo  = "it needs a repository, which our own rules look into"
	inDiff  = "reading the diff says it first"
	judging = "patches that maintainers take break it often, for good reasons"
	falsePo = "it is wrong about as often as it is right"
	tooling = "it is about the file given to checkpatch, which is ours"
)

// policies holds the types that are not simply passed on.
var policies = func() map[string]Policy {
	m := map[string]Policy{}
	set := func(p Policy, types ...string) {
		for _, t := range types {
			p.Type = t
			m[t] = p
		}
	}
	set(Policy{Drop: true, Reason: ours},
		"BAD_SIGN_OFF", "NO_AUTHOR_SIGN_OFF", "FROM_SIGN_OFF_MISMATCH", "MISSING_SIGN_OFF", "EMAIL_SUBJECT", "COMMIT_MESSAGE",
		"COMMIT_LOG_LONG_LINE", "COMMIT_LOG_VERSIONING", "COMMIT_LOG_USE_LINK", "COMMIT_LOG_WRONG_LINK", "PREFER_LORE_ARCHIVE",
		"GERRIT_CHANGE_ID", "BAD_STABLE_ADDRESS_STYLE", "MISSING_FIXES_TAG", "BAD_REPORTED_BY_LINK", "FILE_PATH_CHANGES",
		"SPDX_LICENSE_TAG", "UNDOCUMENTED_DT_STRING")
	set(Policy{Drop: true, Reason: noRepo}, "UNKNOWN_COMMIT_ID", "GIT_COMMIT_ID", "BAD_FIXES_TAG")
	set(Policy{Drop: true, Reason: inDiff}, "CORRUPTED_PATCH", "NOT_UNIFIED_DIFF", "PATCH_PREFIX", "DOS_LINE_ENDINGS")
	set(Policy{Drop: true, Reason: tooling}, "BAD_COMMIT_SEPARATOR")

	set(Policy{Strict: true, Reason: judging},
		"LONG_LINE_STRING", "SPLIT_STRING", "STRING_FRAGMENTS", "CONFIG_DESCRIPTION", "AVOID_EXTERNS", "ENOSYS", "ENOTSUPP",
		"NEW_TYPEDEFS", "VOLATILE", "SYMBOLIC_PERMS", "LINUX_VERSION_CODE", "TRACING_LOGGING", "CONST_STRUCT", "PREFER_PR_LEVEL",
		"PREFER_DEV_LEVEL", "PREFER_DEFINED_ATTRIBUTE_MACRO", "EMBEDDED_FILENAME", "EMBEDDED_FUNCTION_NAME", "OOM_MESSAGE",
		"STATIC_CONST_CHAR_ARRAY", "UNNECESSARY_ELSE", "RETURN_VOID", "LOGGING_CONTINUATION", "INLINE", "OBSOLETE",
		"USE_NEGATIVE_ERRNO", "UNSPECIFIED_INT", "MSLEEP", "USLEEP_RANGE", "FUNCTION_ARGUMENTS", "DT_SPLIT_BINDING_PATCH",
		"DT_SCHEMA_BINDING_PATCH", "PRINTK_WITHOUT_KERN_LEVEL", "CONSIDER_COMPLETION", "EXPORT_SYMBOL", "IF_0", "IF_1")
	set(Policy{Strict: true, Style: true, Reason: falsePo},
		"COMPLEX_MACRO", "MACRO_ARG_UNUSED", "MACRO_ARG_REUSE", "MACRO_WITH_FLOW_CONTROL", "MULTISTATEMENT_MACRO_USE_DO_WHILE",
		"SINGLE_STATEMENT_DO_WHILE_MACRO", "SUSPECT_CODE_INDENT", "DEEP_INDENTATION", "CONSTANT_COMPARISON", "CONSTANT_CONVERSION",
		"MULTILINE_DEREFERENCE", "LIKELY_MISUSE", "DATA_RACE", "MEMORY_BARRIER", "INDENTED_LABEL", "WAITQUEUE_ACTIVE")
	set(Policy{Note: true, Code: true, Style: true, Reason: judging},
		"LONG_LINE", "LONG_LINE_COMMENT", "LINE_SPACING", "BLOCK_COMMENT_STYLE", "BRACES", "REPEATED_WORD", "TABSTOP",
		"UNNECESSARY_PARENTHESES", "LEADING_SPACE", "PREFER_IS_ENABLED", "SSCANF_TO_KSTRTO", "NAKED_SSCANF", "MINMAX", "JIFFIES_COMPARISON")
	set(Policy{Note: true}, "TYPO_SPELLING", "REPEATED_WORD", "AVOID_BUG")
	set(Policy{Message: true, Note: true, Reason: "git am takes an indented diff for text; only patch(1) may not"}, "DIFF_IN_COMMIT_MSG")
	set(Policy{Message: true}, "COMMIT_COMMENT_SYMBOL", "UTF8_BEFORE_PATCH", "INVALID_UTF8")
	set(Policy{Code: true, Style: true},
		"SPACING", "OPEN_BRACE", "POINTER_LOCATION", "CODE_INDENT", "TRAILING_STATEMENTS", "TRAILING_WHITESPACE", "ELSE_AFTER_BRACE",
		"WHILE_AFTER_BRACE", "BRACKET_SPACE", "RETURN_PARENTHESES", "SWITCH_CASE_INDENT_LEVEL", "ASSIGN_IN_IF", "SPACE_BEFORE_TAB",
		"C99_COMMENTS", "FUNCTION_WITHOUT_ARGS", "PARENTHESIS_ALIGNMENT", "OPEN_ENDED_LINE", "CAMELCASE", "ALLOC_SIZEOF_STRUCT",
		"TRAILING_SEMICOLON", "ONE_SEMICOLON", "MISSING_EOF_NEWLINE", "STORAGE_CLASS", "INLINE_LOCATION")
	return m
}()

// PolicyOf says what becomes of a type.
func PolicyOf(typ string) Policy {
	if p, ok := policies[typ]; ok {
		return p
	}
	return Policy{Type: typ}
}

// CheckpatchPolicy lists the types that are not simply passed on, with the
// reasons, by name.
func CheckpatchPolicy() []Policy {
	var out []Policy
	for _, t := range slices.Sorted(maps.Keys(policies)) {
		out = append(out, policies[t])
	}
	return out
}
