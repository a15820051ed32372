package call

// The services that are called.

// CloudFormation is called by Form.
func CloudFormation() Service {
	return Service{ID: "CloudFormation", Host: "cloudformation", Version: "2010-05-15"}
}

// CloudWatch is called by Form.
func CloudWatch() Service {
	return Service{ID: "CloudWatch", Host: "monitoring", Version: "2010-08-01", Gov: GovNever}
}

// Logs is CloudWatch Logs. It is called by JSON.
func Logs() Service {
	return Service{ID: "CloudWatch Logs", Host: "logs", Target: "Logs_20140328"}
}

// EventBridge is called by JSON.
func EventBridge() Service {
	return Service{ID: "EventBridge", Host: "events", Target: "AWSEvents", Gov: GovNever}
}

// Lambda has a REST API.
func Lambda() Service { return Service{ID: "Lambda", Host: "lambda", Gov: GovAlways} }

// SecretsManager is called by JSON.
func SecretsManager() Service {
	return Service{ID: "Secrets Manager", Host: "secretsmanager", Target: "secretsmanager", OneDomain: true, Gov: GovAlways}
}

// SNS is called by Form.
func SNS() Service { return Service{ID: "SNS", Host: "sns", Version: "2010-03-31"} }

// SSM is called by JSON.
func SSM() Service { return Service{ID: "SSM", Host: "ssm", Target: "AmazonSSM"} }
