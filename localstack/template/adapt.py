"""Changes the released CloudFormation template so that MiniStack deploys it, and nothing else in it.

    adapt.py FROM TO

MiniStack 1.5.33 refuses alarms on metric math. They are removed, and the dashboard names no ARN of them. MiniStack reports the account as the
sender of each message in a queue, not the role of the function that sent it. So the account is added to the senders that the functions trust.

If one of these changes is not needed, or needed in other places than expected, that is an error.
"""

import json
import sys

SENDERS = "ONCE_TRUSTED_SENDERS"
ALARMS, DASHBOARDS, FUNCTIONS = 3, 1, 3  # how many resources of each type are removed or changed


def adapt(template):
    """Changes the template, and returns how many alarms, dashboards and functions were removed or changed."""
    resources = template["Resources"]
    alarms = {name for name, r in resources.items() if r["Type"] == "AWS::CloudWatch::Alarm" and "Metrics" in r["Properties"]}
    for name in alarms:
        del resources[name]
    dashboards, functions = 0, 0
    for resource in resources.values():
        if resource["Type"] == "AWS::CloudWatch::Dashboard":
            before = json.dumps(resource)
            resource["Properties"] = without(resource["Properties"], alarms)
            dashboards += before != json.dumps(resource)
        if resource["Type"] == "AWS::Lambda::Function":
            resource["Properties"]["Environment"]["Variables"][SENDERS]["Fn::Join"][1].append({"Ref": "AWS::AccountId"})
            functions += 1
    rest = json.dumps(template)
    left = sorted(name for name in alarms if name in rest)
    if left:
        sys.exit(f"the template still refers to {', '.join(left)}")
    return len(alarms), dashboards, functions


def without(value, names):
    """Returns the value with "removed" in place of every attribute of the named resources."""
    if isinstance(value, list):
        return [without(v, names) for v in value]
    if not isinstance(value, dict):
        return value
    if list(value) == ["Fn::GetAtt"] and value["Fn::GetAtt"][0] in names:
        return "removed"
    return {key: without(v, names) for key, v in value.items()}


def main():
    source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        template = json.load(file)
    changed = adapt(template)
    if changed != (ALARMS, DASHBOARDS, FUNCTIONS):
        sys.exit(f"alarms, dashboards and functions changed: {changed}, want {(ALARMS, DASHBOARDS, FUNCTIONS)}")
    with open(target, "w", encoding="utf-8") as file:
        json.dump(template, file, separators=(",", ":"))


main()
