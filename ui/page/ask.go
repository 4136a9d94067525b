package page

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/a-h/templ"
)

// A Question is asked before something is taken away. A browser with scripts asks it in
// a dialog, of which [Question.Attributes] tell app.js; to one without them the app shows
// a page of the same words before it does what the form says.
type Question struct {
	Title  string   // {} in it stands for what was chosen
	Text   string   // what follows from it
	Word   string   // has to be typed; "" if nothing has
	Field  string   // the field of the form whose value was chosen
	Values []string // those of Field that are asked about; nil is all
	Back   string   // the address that Cancel leads to without scripts; "" is that of the route
}

// Attributes are those of the form, the select or the switch that is asked about.
func (q Question) Attributes() templ.OrderedAttributes {
	list := templ.OrderedAttributes{{Key: "hx-confirm", Value: q.Title}, {Key: "data-confirm-text", Value: q.Text}}
	if q.Values != nil {
		list = append(list, templ.KeyValue[string, any]{Key: "data-confirm-for", Value: strings.Join(q.Values, " ") + " -"})
	}
	if q.Word != "" {
		list = append(list, templ.KeyValue[string, any]{Key: "data-confirm-word", Value: q.Word})
	}
	return list
}

const confirmedField, wordField = "confirmed", "word"

// about returns the question about what a form says; ok is false if there is none.
func (q Question) about(v *Visit) (_ Question, ok bool) {
	chosen := v.PostFormValue(q.Field)
	q.Title = strings.ReplaceAll(q.Title, "{}", chosen)
	return q, q.Title != "" && (q.Values == nil || slices.Contains(q.Values, chosen))
}

// ask asks whoever has sent a form without scripts. done is true if the answer was written.
func (a *App) ask(w http.ResponseWriter, v *Visit, route Route) (done bool) {
	if route.Ask == nil || v.Swapped() {
		return false
	}
	q, err := route.Ask(v)
	if err != nil {
		a.refuse(w, v, err)
		return true
	}
	q, ok := q.about(v)
	if !ok {
		return false
	}
	confirmed := v.PostFormValue(confirmedField) != ""
	if confirmed && v.PostFormValue(wordField) == q.Word {
		return false
	}
	if confirmed {
		v.notice = Notice{Text: "That is not " + q.Word + ".", Bad: true}
	}
	a.write(w, v, Page{Title: q.Title, Main: askPage(v, q, cmp.Or(q.Back, v.back(route)))})
	return true
}

// A sent is a field of a form, with a value of it.
type sent struct{ name, value string }

// sent are the fields of the form that the question is about.
func (v *Visit) sent() (list []sent) {
	for name, values := range v.PostForm {
		for _, value := range values {
			if name != confirmedField && name != wordField {
				list = append(list, sent{name, value})
			}
		}
	}
	return list
}

// back is the address of the page that a POST belongs to. Its {id} is that of the path.
func (v *Visit) back(route Route) string {
	if v.Slug() == "" {
		return route.Back
	}
	parts := strings.Split(route.Back, "/")
	for i, part := range parts {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			parts[i] = v.PathValue(strings.TrimSuffix(name, "}"))
		}
	}
	return v.Action(parts...)
}

// Find returns the first item of a list that is the one that is meant, page by page; ok
// is false if none is.
func Find[T any](list func(offset int64) (items []T, total int64, err error), is func(T) bool) (found T, ok bool, err error) {
	for offset := int64(0); ; {
		items, total, err := list(offset)
		if err != nil {
			return found, false, err
		}
		if i := slices.IndexFunc(items, is); i >= 0 {
			return items[i], true, nil
		}
		if offset += int64(len(items)); len(items) == 0 || offset >= total {
			return found, false, nil
		}
	}
}
