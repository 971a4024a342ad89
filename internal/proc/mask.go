// SPDX-License-Identifier: Apache-2.0

package proc

import (
	"os"
	"regexp"
	"slices"
	"strings"
)

var (
	// Names of variables whose values are nobody's business.
	secretName = regexp.MustCompile(`(?i)TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|(?:^|_)KEY(?:$|_)|APIKEY|(?:^|_)PAT$`)
	// The user's part of a URL: "https://user:token@host/".
	userInfo = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^/@\s'"]+@`)
)

// minSecret is the length from which a value is taken for a secret: shorter
// ones ("1", "yes") would blank out half a log.
const minSecret = 8

// Mask takes out of a text what must not be recorded or printed: what stands
// before the host in a URL, and the values of this process's environment
// variables that are named like secrets.
func Mask(s string) string {
	if strings.Contains(s, "@") {
		// git's own "ssh://git@host/" names an account that is none.
		s = userInfo.ReplaceAllStringFunc(s, func(m string) string {
			if strings.HasSuffix(m, "://git@") {
				return m
			}
			return m[:strings.Index(m, "://")+3] + "***@"
		})
	}
	for _, e := range os.Environ() {
		k, v, _ := strings.Cut(e, "=")
		if len(v) >= minSecret && secretName.MatchString(k) && !strings.HasPrefix(v, "/") {
			s = strings.ReplaceAll(s, v, "***")
		}
	}
	return s
}

// WithoutSecrets is an environment without the variables that are named like
// secrets.
func WithoutSecrets(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(e string) bool {
		k, _, _ := strings.Cut(e, "=")
		return secretName.MatchString(k)
	})
}
