package once_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestTheRootPackageImportsNoStore keeps Lambda binaries small and a user's go.mod short: stores
// are opened in other packages.
func TestTheRootPackageImportsNoStore(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	if !slices.Contains(deps, "github.com/effectively-once/once/internal/dedup/lease") {
		t.Fatal("go list names none of the package's own imports")
	}
	allowed := []string{"github.com/effectively-once/once", "github.com/dunglas/httpsfv"}
	for _, dep := range deps {
		first, _, _ := strings.Cut(dep, "/")
		standard := !strings.Contains(first, ".")
		fine := standard || slices.ContainsFunc(allowed, func(a string) bool { return dep == a || strings.HasPrefix(dep, a+"/") })
		if !fine {
			t.Errorf("the root package imports %s", dep)
		}
	}
	for _, store := range []string{"pebbledb", "internal/system/embedded", "pebblestore", "embedded"} {
		if slices.ContainsFunc(deps, func(dep string) bool { return strings.HasSuffix(dep, store) }) {
			t.Errorf("the root package imports %s", store)
		}
	}
}

// TestTheFunctionsImportOnlyPackagesThatTheyUse keeps the deployed binaries small: the embedded
// system and the command line are not in them.
func TestTheFunctionsImportOnlyPackagesThatTheyUse(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./functions/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	const module = "github.com/effectively-once/once/"
	for _, used := range []string{module + "functions/ingest", module + "functions/process", module + "functions/publish", module + "internal/dedup/dynamostore"} {
		if !slices.Contains(deps, used) {
			t.Fatalf("go list does not name %s", used)
		}
	}
	for _, not := range []string{
		"github.com/cockroachdb/pebble", "github.com/spf13/cobra", "github.com/aws/aws-cdk-go", "github.com/aws/jsii-runtime-go", module + "embedded",
		module + "internal/system/embedded", module + "internal/pebbledb", module + "internal/dedup/pebblestore", module + "internal/queue/pebblequeue", module + "localstack",
	} {
		if i := slices.IndexFunc(deps, func(dep string) bool { return dep == not || strings.HasPrefix(dep, not+"/") }); i >= 0 {
			t.Errorf("the functions import %s", deps[i])
		}
	}
}
