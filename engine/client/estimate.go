package client

// An EstimateInput asks what a run may cost, from runs that have ended.
type EstimateInput struct {
	Run     Features `json:"run"`
	Samples []Sample `json:"samples"` // the newest first
}

// Features are what is known of a run before it ends. Files and Lines are 0 until they are known.
type Features struct {
	Repo        string `json:"repo"`
	Implementer string `json:"implementer"`
	Files       int    `json:"files,omitempty"`
	Lines       int    `json:"lines,omitempty"`
}

// A Sample is a run that has ended.
type Sample struct {
	Run string `json:"runId"`
	Features

	Merged bool   `json:"merged"`
	Cents  *int64 `json:"cents,omitempty"` // absent if a part of the cost is not known
	WorkMS int64  `json:"workMs"`          // without waiting for people
}

// An EstimateResult is what runs like this one cost, and how long they worked. A number is absent if there are too few.
type EstimateResult struct {
	Size   string   `json:"size,omitempty"` // small, medium, large
	Cents  *Spread  `json:"cents,omitempty"`
	WorkMS *Spread  `json:"workMs,omitempty"`
	Merged int      `json:"merged"` // of Basis
	Basis  []string `json:"basis"`  // the runs, the closest first
}

// A Spread says where half and four fifths of the numbers are.
type Spread struct {
	P50 int64 `json:"p50"`
	P80 int64 `json:"p80"`
}
