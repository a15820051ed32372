package lambdadev

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// ErrEndpoint says that the environment names no endpoint: without one the tables and queues would be made at AWS.
var ErrEndpoint = errors.New("no endpoint for AWS on this machine")

const hint = `start one, with localstack/aws.sh for example, and set AWS_ENDPOINT_URL, or AWS_ENDPOINT_URL_DYNAMODB and AWS_ENDPOINT_URL_SQS`

// checkEndpoints makes sure that both services have an endpoint of their own or a common one.
func checkEndpoints(getenv func(string) string) error {
	var missing []string
	for _, name := range []string{"AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_SQS"} {
		if getenv(name) == "" && getenv("AWS_ENDPOINT_URL") == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%w: %s is not set; %s", ErrEndpoint, strings.Join(missing, " and "), hint)
	}
	return nil
}

// credentials are what an emulator takes as well as any other, where the environment has none.
func credentials() error {
	if os.Getenv("AWS_PROFILE") != "" {
		return nil
	}
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"} {
		if os.Getenv(name) != "" {
			continue
		}
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}
