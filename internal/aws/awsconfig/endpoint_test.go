package awsconfig

import (
	"errors"
	"strings"
	"testing"
)

func TestAnEndpointIsAnAddressWithSchemeAndHost(t *testing.T) {
	for _, value := range []string{"http://127.0.0.1:8123", "https://sqs.example", "http://user:secret@host"} {
		if err := CheckEndpoint("VARIABLE", value); err != nil {
			t.Errorf("%s: %v", value, err)
		}
	}
	for _, value := range []string{"", "127.0.0.1:8123", "localhost:8123", "ftp://secret@host", "http://", "http://secret%", "http://:8123"} {
		err := CheckEndpoint("VARIABLE", value)
		if !errors.Is(err, ErrEndpoint) || !strings.Contains(err.Error(), "VARIABLE") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", value, err)
		}
	}
}
