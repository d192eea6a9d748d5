package journal

// Rules are those by which a run goes on, of the version that began it. An earlier version recorded fewer of them.
type Rules struct {
	// Listed says that agents have the tools that they list. Without it those that list none have all, and an unknown
	// name is a warning.
	Listed bool
	// Escaped says that what expressions put into URLs of http.request is escaped.
	Escaped bool
	// Retrieves says that an agent whose retrieve has no top_k retrieves as many documents as a step. Without it that
	// agent retrieves none.
	Retrieves bool
	// Errors says that the error of a step, as expressions see it, has the reason, the status and the step that failed
	// first. Without it there are the category, the code and the message.
	Errors bool
	// Skips says that a step with the trigger none_failed runs also after needs that were skipped because of their own
	// needs, unless one of these failed. Without it that step is skipped.
	Skips bool
}

func (r Rules) addTo(data map[string]any) {
	if r.Listed {
		data["listed"] = true
	}
	if r.Escaped {
		data["escaped"] = true
	}
	if r.Retrieves {
		data["retrieves"] = true
	}
	if r.Errors {
		data["errors"] = true
	}
	if r.Skips {
		data["skips"] = true
	}
}

func (o object) rules() Rules {
	return Rules{Listed: o.yes("listed"), Escaped: o.yes("escaped"), Retrieves: o.yes("retrieves"),
		Errors: o.yes("errors"), Skips: o.yes("skips")}
}
