package awsconfig

import (
	"errors"
	"fmt"
	"net/url"
)

// ErrEndpoint reports that a variable for the endpoint of a service has no usable address.
var ErrEndpoint = errors.New("no usable endpoint for AWS")

// CheckEndpoint returns an ErrEndpoint if the value of a variable can't be the address of a
// service. The error does not repeat the value, because an address may hold a password.
func CheckEndpoint(name, value string) error {
	u, err := url.Parse(value)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return fmt.Errorf("%w: %s is not an address such as http://127.0.0.1:8123", ErrEndpoint, name)
	}
	return nil
}
