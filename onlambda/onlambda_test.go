package onlambda_test

import (
	"strings"
	"testing"

	"github.com/effectively-once/once/onlambda"
)

func TestOpenNamesTheMissingVariables(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-central-1")
	t.Setenv("ONCE_GROUPS_TABLE", "groups")
	_, err := onlambda.Open(t.Context(), onlambda.Options{})
	if err == nil {
		t.Fatal("opened without an environment")
	}
	for _, name := range []string{"ONCE_CONFIG", "ONCE_TOKENS_TABLE", "ONCE_PUBLISH_QUEUE_URL"} {
		if !strings.Contains(err.Error(), name+" is not set") {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
	if strings.Contains(err.Error(), "ONCE_GROUPS_TABLE") {
		t.Errorf("the error names what is set: %v", err)
	}
}

func TestOpenRefusesAnUnknownFunction(t *testing.T) {
	_, err := onlambda.Open(t.Context(), onlambda.Options{Function: "consume"})
	if err == nil || !strings.Contains(err.Error(), "ingest, process or publish") {
		t.Errorf("error %v does not say which there are", err)
	}
}
