package config_test

import (
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/config"
)

func TestEachKindOfCallersWithoutRolesHasAWarning(t *testing.T) {
	oidc, claim := &config.OIDC{Issuer: "i"}, &config.OIDC{Issuer: "i", Roles: "scope"}
	some := map[string][]string{"shop": {"read"}}
	for name, c := range map[string]struct {
		auth         config.Auth
		keys, tokens bool
	}{
		"keys":                         {config.Auth{Keys: "env:K"}, true, false},
		"tokens":                       {config.Auth{OIDC: oidc}, false, true},
		"keys beside tokens":           {config.Auth{Keys: "env:K", OIDC: claim}, true, false},
		"tokens beside keys":           {config.Auth{Keys: "env:K", OIDC: oidc, Roles: some}, false, true},
		"both":                         {config.Auth{Keys: "env:K", OIDC: oidc}, true, true},
		"neither":                      {config.Auth{Keys: "env:K", OIDC: claim, Roles: some}, false, false},
		"meant, as the empty map says": {config.Auth{Keys: "env:K", OIDC: oidc, Roles: map[string][]string{}}, false, false},
	} {
		got := strings.Join((&config.Server{Auth: &c.auth}).RolesWarnings(), "\n")
		if strings.Contains(got, "every key may only send") != c.keys || strings.Contains(got, "every token may only send") != c.tokens {
			t.Errorf("%s: got %q", name, got)
		}
	}
}
