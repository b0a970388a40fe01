-- Does the same for the sale that has this slug.
-- params: slug
SELECT s.number FROM sales s WHERE s.slug = $1 AND s.state <> 'deleted' FOR NO KEY UPDATE
