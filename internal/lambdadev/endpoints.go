package lambdadev

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
)

// ErrEndpoint says that the environment names no endpoint, or none that can be one: without one the tables and queues would be made at AWS.
var ErrEndpoint = errors.New("no usable endpoint for AWS")

const hint = `start emulators and set the variables, as localstack/aws.sh run once dev --lambda … does`

// checkEndpoints makes sure that both services have an endpoint of their own or a common one, and that it can be one.
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
		if err := CheckEndpoint(name, value); err != nil {
			return err
		}
	}
	switch len(missing) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%w: %s is not set; %s", ErrEndpoint, missing[0], hint)
	}
	return fmt.Errorf("%w: %s are not set; %s", ErrEndpoint, strings.Join(missing, " and "), hint)
}

// CheckEndpoint gives an ErrEndpoint where the value of a variable can't be the address of a service. The error shows no value: an address may hold a password.
func CheckEndpoint(name, value string) error {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("%w: %s is not an address such as http://127.0.0.1:8123", ErrEndpoint, name)
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
