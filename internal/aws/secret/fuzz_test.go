package secret_test

import (
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/aws/secret"
)

// FuzzPlace reads from any place: nothing, with an error that names the place, or a secret without
// white space around it.
func FuzzPlace(f *testing.F) {
	f.Setenv("ONCE_TEST_FUZZED_SECRET", " hush ")
	for _, place := range []string{"env:ONCE_TEST_FUZZED_SECRET", "env:", "env:=", "file:", "file:\x00", "secretsmanager:x", "ssm:/a", "", ":", "vault:x", "ENV:HOME"} {
		f.Add(place)
	}
	f.Fuzz(func(t *testing.T, place string) {
		if strings.HasPrefix(place, "file:/") || strings.HasPrefix(place, "file:.") {
			return // some files never end
		}
		value, err := secret.New(secret.Options{}).Read(t.Context(), place)
		switch {
		case err == nil && (value == "" || value != strings.TrimSpace(value)):
			t.Fatalf("%q is a secret", value)
		case err != nil && (value != "" || !strings.Contains(err.Error(), place)):
			t.Fatalf("%q with %v", value, err)
		}
	})
}
