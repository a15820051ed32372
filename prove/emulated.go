package main

import "os"

// emulated returns a command that is run with the emulators of AWS, by the script
// localstack/aws.sh, unless the environment names other endpoints.
func emulated(script string, args []string) []string {
	if os.Getenv("AWS_ENDPOINT_URL_DYNAMODB") != "" {
		return args
	}
	return append([]string{script, "run"}, args...)
}
