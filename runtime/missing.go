package runtime

import "maps"

// missingAdapter says why an adapter cannot be used, see [Metadata]; "" if it can.
func missingAdapter(adapter any) string {
	if d, ok := adapter.(Described); ok {
		return d.Metadata().Missing
	}
	return ""
}

// apart returns the models that can be used, and why the others cannot, by name.
func apart(models map[string]Model) (usable map[string]Model, missing map[string]string) {
	for name, m := range models {
		why := missingAdapter(m)
		if why == "" {
			continue
		}
		if missing == nil {
			models, missing = maps.Clone(models), map[string]string{}
		}
		missing[name] = why
		delete(models, name)
	}
	return models, missing
}

// WhyNoModel says why a model that the host names cannot be used, see [Metadata]; "" if there is nothing to say.
func (r *Resolution) WhyNoModel(name string) string { return r.noModels[name] }
