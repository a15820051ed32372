package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/effectively-once/once/internal/aws/awsconfig"
)

const hint = `start emulators and set the variables, as localstack/aws.sh run go run ./localstack/lambda … does`

// checkEndpoints returns an awsconfig.ErrEndpoint unless DynamoDB and SQS each have an endpoint of
// their own or a common one. Without it, the tables and queues would be created at AWS.
func checkEndpoints(getenv func(string) string) error {
	var missing []string
	for _, name := range []string{"AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_SQS"} {
		value, common := getenv(name), getenv("AWS_ENDPOINT_URL")
		if value == "" && common == "" {
			missing = append(missing, name)
			continue
		}
		if value == "" {
			name, value = "AWS_ENDPOINT_URL", common
		}
		if err := awsconfig.CheckEndpoint(name, value); err != nil {
			return err
		}
	}
	switch len(missing) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%w: %s is not set; %s", awsconfig.ErrEndpoint, missing[0], hint)
	}
	return fmt.Errorf("%w: %s are not set; %s", awsconfig.ErrEndpoint, strings.Join(missing, " and "), hint)
}

// credentials sets arbitrary credentials if the environment has none; emulators accept any.
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
