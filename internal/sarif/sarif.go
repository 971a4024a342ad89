// SPDX-License-Identifier: Apache-2.0

// Package sarif owns the part of SARIF 2.1.0 (OASIS) that patchcheck writes:
// the types, in the order in which they are written, and how a rule or a file
// becomes one of them. It knows nothing of series or runs.
package sarif

import (
	"net/url"
	"path"
	"strings"

	"patchcheck/checks"
)

// The document's schema and version.
const (
	Schema  = "https://json.schemastore.org/sarif-2.1.0.json"
	Version = "2.1.0"
)

// Text is a message.
type Text struct {
	Text string `json:"text"`
}

// Rule describes a kind of result (reportingDescriptor).
type Rule struct {
	ID    string `json:"id"`
	Short Text   `json:"shortDescription"`
	Help  Text   `json:"help"`
	Conf  Conf   `json:"defaultConfiguration"`
}

// Conf is a rule's configuration.
type Conf struct {
	Level string `json:"level"`
}

// Region is a place in a file.
type Region struct {
	StartLine   int `json:"startLine,omitempty"`
	StartColumn int `json:"startColumn,omitempty"`
}

// Artifact names a file.
type Artifact struct {
	URI     string `json:"uri"`
	URIBase string `json:"uriBaseId,omitempty"`
}

// Physical is a file and a place in it.
type Physical struct {
	Artifact Artifact `json:"artifactLocation"`
	Region   *Region  `json:"region,omitempty"`
}

// Logical is a place that is no file: a cell of a plan.
type Logical struct {
	Name      string `json:"name,omitempty"`
	Qualified string `json:"fullyQualifiedName,omitempty"`
	Kind      string `json:"kind,omitempty"`
}

// Location is where a result was found.
type Location struct {
	Physical *Physical `json:"physicalLocation,omitempty"`
	Logical  []Logical `json:"logicalLocations,omitempty"`
	Message  *Text     `json:"message,omitempty"`
}

// Result is one finding.
type Result struct {
	RuleID       string            `json:"ruleId"`
	RuleIndex    int               `json:"ruleIndex"`
	Level        string            `json:"level"`
	Message      Text              `json:"message"`
	Locations    []Location        `json:"locations,omitempty"`
	Related      []Location        `json:"relatedLocations,omitempty"`
	Fingerprints map[string]string `json:"partialFingerprints,omitempty"`
	Suppress     []Suppression     `json:"suppressions,omitempty"`
	Props        map[string]string `json:"properties,omitempty"`
}

// Suppression says that a result was silenced, and where.
type Suppression struct {
	Kind string `json:"kind"`
	Why  string `json:"justification,omitempty"`
}

// Notification is a trouble of the tool itself, which says nothing about what
// was looked at.
type Notification struct {
	Level     string     `json:"level"`
	Message   Text       `json:"message"`
	Locations []Location `json:"locations,omitempty"`
}

// Invocation is one run of the tool.
type Invocation struct {
	OK            bool           `json:"executionSuccessful"`
	Start         string         `json:"startTimeUtc,omitempty"`
	End           string         `json:"endTimeUtc,omitempty"`
	Notifications []Notification `json:"toolExecutionNotifications,omitempty"`
}

// Driver is the tool.
type Driver struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	Rules   []Rule `json:"rules"`
}

// Run is one run's results.
type Run struct {
	Tool struct {
		Driver Driver `json:"driver"`
	} `json:"tool"`
	Automation *struct {
		ID string `json:"id"`
	} `json:"automationDetails,omitempty"`
	Invocations []Invocation      `json:"invocations,omitempty"`
	Bases       map[string]Base   `json:"originalUriBaseIds,omitempty"`
	ColumnKind  string            `json:"columnKind,omitempty"`
	Results     []Result          `json:"results"`
	Props       map[string]string `json:"properties,omitempty"`
}

// Base says what relative references of one base are relative to.
type Base struct {
	URI         string `json:"uri,omitempty"`
	Description *Text  `json:"description,omitempty"`
}

// Log is the document.
type Log struct {
	Schema  string `json:"$schema"`
	Version string `json:"version"`
	Runs    []Run  `json:"runs"`
}

// Rules collects the rules of results in the order of their first use.
type Rules struct {
	List  []Rule
	index map[string]int
}

// Add returns the index of the rule of f. known describes rules by id; it may
// be nil, and then what the finding says is all there is.
func (r *Rules) Add(f checks.Finding, known func(id string) (checks.Rule, bool)) int {
	if i, ok := r.index[f.ID]; ok {
		return i
	}
	ru := Rule{ID: f.ID, Short: Text{f.ID}, Help: Text{f.Fix}, Conf: Conf{string(f.Severity)}}
	if known != nil {
		if k, ok := known(f.ID); ok {
			ru.Short, ru.Help, ru.Conf.Level = Text{k.Title}, Text{k.Fix + " (" + k.Source + ")"}, string(k.Severity)
		}
	}
	if r.index == nil {
		r.index = map[string]int{}
	}
	r.index[f.ID] = len(r.List)
	r.List = append(r.List, ru)
	return r.index[f.ID]
}

// URI is the reference to a file: relative as it is, absolute as file URI.
func URI(name string) string {
	u := url.URL{Path: path.Clean(name)}
	if strings.HasPrefix(name, "/") {
		u.Scheme = "file"
	}
	return u.String()
}
