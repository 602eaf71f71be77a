{#
  A generic test: releases of one plan, which have the same classes, leave at least ell sensitive values in every class,
  whichever of them somebody is in. A class in which releases have no value in common holds nobody who is in all of them.

  - elldelta_dbt.linked_diversity:
      quasi_identifiers: [postal_code, gender, age]
      sensitive: disease
      ell: 5
      linked_with: [ref('release_b'), ref('release_c')]

  Classes are compared by their labels, as they are written. Releases with other classes (moved, or of others) need
  `elldelta audit`, which reads labels and subtracts releases; so do closeness, weights and people who move.
#}
{% test linked_diversity(model, quasi_identifiers, sensitive, ell, linked_with=[]) %}
{%- set keys = [] -%}
{%- for name in quasi_identifiers -%}{%- do keys.append(adapter.quote(name)) -%}{%- endfor -%}
{%- set keys = keys | join(", ") -%}
{%- for number in range(2 ** (linked_with | length)) %}
{%- set linked = [model] -%}
{%- for other in linked_with -%}
  {%- if (number // (2 ** loop.index0)) % 2 == 1 -%}{%- do linked.append(other) -%}{%- endif -%}
{%- endfor %}
{% if not loop.first %}union all{% endif %}
select {{ keys }}, count(*) as values_left, {{ linked | length }} as releases
from (
  {% for relation in linked %}
  select {{ keys }}, {{ adapter.quote(sensitive) }} from {{ relation }} where {{ adapter.quote(sensitive) }} is not null
  {% if not loop.last %}intersect{% else %}{% if linked | length == 1 %}group by {{ keys }}, {{ adapter.quote(sensitive) }}{% endif %}{% endif %}
  {% endfor %}
) as common_{{ number }}
group by {{ keys }}
having count(*) < {{ ell }}
{% endfor %}
{% endtest %}
