// SPDX-License-Identifier: Apache-2.0

package forge

import (
	"net/url"
	"strings"
)

// Token is a secret. However it is printed or encoded, its text stays hidden.
type Token struct {
	text string
	// Source names the variable it comes from, for messages.
	Source string
}

// NewToken wraps a secret read from source.
func NewToken(text, source string) Token { return Token{strings.TrimSpace(text), source} }

// Set reports whether there is a token.
func (t Token) Set() bool { return t.text != "" }

const hidden = "[token]"

func (t Token) String() string               { return hidden }
func (t Token) GoString() string             { return hidden }
func (t Token) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// redact takes the token out of a text.
func (t Token) redact(s string) string {
	if t.text == "" {
		return s
	}
	return strings.ReplaceAll(s, t.text, hidden)
}

// Variables that may hold a token. Those of the first list belong to the API
// that GITHUB_API_URL names, github.com without it; those of the second to any
// other host, as in GitHub's own command line client.
var (
	tokenVars      = []string{"GITHUB_TOKEN", "GH_TOKEN"}
	enterpriseVars = []string{"GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"}
)

// TokenVars lists every variable that may hold a token, so that they can be
// taken out of the environment before a child starts.
func TokenVars() []string { return append(append([]string{}, tokenVars...), enterpriseVars...) }

// FromEnv chooses API and token by the environment. api is what the user asked
// for, or "". A token that belongs to one host is not given to another.
func FromEnv(api string, getenv func(string) string) (string, Token) {
	home := getenv("GITHUB_API_URL")
	if home == "" {
		home = DefaultAPI
	}
	if api == "" {
		api = home
	}
	var vars []string
	if sameOrigin(api, home) {
		vars = append(vars, tokenVars...)
	}
	if !sameOrigin(api, DefaultAPI) {
		vars = append(vars, enterpriseVars...)
	}
	for _, v := range vars {
		if s := strings.TrimSpace(getenv(v)); s != "" {
			return api, NewToken(s, v)
		}
	}
	return api, Token{}
}

func sameOrigin(a, b string) bool {
	x, err1 := url.Parse(a)
	y, err2 := url.Parse(b)
	return err1 == nil && err2 == nil && origin(x) == origin(y)
}

func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return strings.ToLower(u.Scheme + "://" + u.Hostname() + ":" + port)
}
