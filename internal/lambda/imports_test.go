package lambda

import (
	"os/exec"
	"strings"
	"testing"
)

// TestTheFunctionsBringNoEmbeddedStore keeps the deployed binaries small: what they do not use is not in them.
func TestTheFunctionsBringNoEmbeddedStore(t *testing.T) {
	for _, name := range []string{"ingest", "process", "publish"} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "../../functions/"+name).Output()
		if err != nil {
			t.Fatal(err)
		}
		deps := string(out)
		if !strings.Contains(deps, "github.com/effectively-once/once/internal/dedup/dynamostore\n") {
			t.Errorf("%s does not import its own store", name)
		}
		for _, not := range []string{"cockroachdb/pebble", "internal/pebbledb", "internal/local\n", "aws/aws-cdk-go", "jsii-runtime-go", "spf13/cobra", "internal/lambdahost"} {
			if strings.Contains(deps, not) {
				t.Errorf("%s imports %s", name, strings.TrimSpace(not))
			}
		}
	}
}
