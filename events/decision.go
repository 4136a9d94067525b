package events

// decisions are what runs wait for. They are in the run's stream.
var decisions = Noun{
	Name: "decision", Audience: Everybody, streamNoun: "run",
	people: [][]decoder{
		decodersOf[DecisionAnswered](),
	},
	work: [][]decoder{
		decodersOf[DecisionRaised](),
		decodersOf[DecisionVoided](),
	},
}

// A DecisionKind says what a person is asked.
type DecisionKind string

// The kinds of decisions.
const (
	FactReview        DecisionKind = "fact_review"               // is what the analysis found true?
	MergeApproval     DecisionKind = "merge_approval"            // may this commit be merged?
	ProtectedPathOnce DecisionKind = "protected_path_allow_once" // may this commit change a protected path?
)

// DecisionRaised says that a run waits for a person's decision. Head is the commit in
// question; it is empty for a fact review.
type DecisionRaised struct {
	runEvent
	Decision ID           `json:"decisionId"`
	About    DecisionKind `json:"kindId"`
	Question string       `json:"question"`
	Head     string       `json:"head,omitempty"`
}

func (DecisionRaised) Kind() string { return "decision.raised" }

// DecisionAnswered says what a person decided.
type DecisionAnswered struct {
	runEvent
	Decision ID           `json:"decisionId"`
	About    DecisionKind `json:"kindId"`
	Action   string       `json:"action"`
	Note     string       `json:"note,omitempty"`
	Head     string       `json:"head,omitempty"`
}

func (DecisionAnswered) Kind() string { return "decision.answered" }

// DecisionVoided says that the decision is no longer needed. Reason is new_commits or
// run_over.
type DecisionVoided struct {
	runEvent
	Decision ID           `json:"decisionId"`
	About    DecisionKind `json:"kindId"`
	Reason   string       `json:"reason"`
}

func (DecisionVoided) Kind() string { return "decision.voided" }
